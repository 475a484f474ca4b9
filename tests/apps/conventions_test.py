"""The conventions of the command line: streams, exit codes, signals, and kills that leave a checkpoint.

    conventions_test.py [SUITE] [-v]     with $WHISKER naming the program; WHISKER_LONG=1 for full counts
"""

import fcntl
import json
import os
import pathlib
import pty
import random
import re
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest

from harness import CONFIG, LONG, ProgramTest, png, stripes


def read_terminal(master):
    """What the program wrote since; "" once it has closed its end."""
    try:
        return os.read(master, 4096).decode()
    except OSError:
        return ""


class CommandLine(ProgramTest):
    """classify, config, train: what they take and what they print."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().train("base", "train.epochs=12")
        cls.weights = "runs/base/best.safetensors"

    def runTest(self):
        """Lets setUpClass make an instance."""

    def test_classify_text_json_and_lines(self):
        pictures = ["val/c0/500.png", "val/c1/500.png"]
        text = self.whisker("classify", self.weights, *pictures, "--top", "2").stdout.splitlines()
        self.assertEqual([line.split(":")[0] for line in text], pictures)
        self.assertRegex(text[0], r"^val/c0/500\.png:(  c[01] [01]\.\d{4}){2}$")
        whole = json.loads(self.whisker("classify", self.weights, *pictures, "--json", "--top", "2").stdout)
        self.assertEqual(whole["schema_version"], 1)
        self.assertEqual([p["path"] for p in whole["pictures"]], pictures)
        self.assertAlmostEqual(sum(p["probability"] for p in whole["pictures"][0]["predictions"]), 1, places=4)
        lines = self.whisker("classify", self.weights, *pictures, "--jsonl", "--top", "2").stdout.splitlines()
        self.assertEqual([json.loads(line) for line in lines], whole["pictures"])

    def test_classify_tells_where_its_time_goes(self):
        start = self.whisker("classify", self.weights, "val/c0/500.png", "--device", "cpu", "-v").stderr
        phases = [line.split(" s  ") for line in start.splitlines()]
        self.assertEqual([what for _, what in phases],
                         ["arguments read", "device ready", "network loaded", "inputs classified"])
        self.assertEqual(phases, sorted(phases, key=lambda phase: float(phase[0])))
        self.assertNotIn("device: auto", start)
        auto = self.whisker("classify", self.weights, "val/c0/500.png", "-v").stderr
        self.assertIn("device: auto is the CPU: up to 32 pictures take less time than the start of a GPU.", auto)
        self.assertEqual(self.whisker("classify", self.weights, "val/c0/500.png").stderr, "")

    def test_classify_goes_on_past_broken_pictures(self):
        (self.folder / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
        inputs = ["val/c0/500.png", "broken.jpg", "missing.png", "val/c1/500.png"]
        done = self.whisker("classify", self.weights, *inputs, code=3)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn("broken.jpg", done.stderr)
        self.assertIn("missing.png", done.stderr)
        whole = json.loads(self.whisker("classify", self.weights, *inputs, "--json", code=3).stdout)
        self.assertEqual(["error" in p for p in whole["pictures"]], [False, True, True, False])
        self.whisker("classify", self.weights, *inputs, "-q", code=3)

    def test_folders_lists_and_odd_names(self):
        odd = self.folder / "odd"
        odd.mkdir()
        names = ["-dash.png", "two words.png", "quo'te\".png", "\u00e9\U0001f431.png", "x" * 200 + ".png",
                 "back\\slash.png", "per%cent{}.png"]
        for i, name in enumerate(names):
            (odd / name).write_bytes(stripes(0, i))
        (odd / ".hidden.png").write_bytes(stripes(0, 1))
        walked = self.whisker("classify", self.weights, "odd", "--jsonl").stdout.splitlines()
        self.assertEqual([json.loads(line)["path"] for line in walked],
                         sorted((f"odd/{n}" for n in names), key=os.fsencode))
        listed = self.whisker("classify", self.weights, "-", "--jsonl",
                              input="".join(f"odd/{n}\n" for n in names)).stdout.splitlines()
        self.assertEqual([json.loads(line)["path"] for line in listed], [f"odd/{n}" for n in names])
        dash = self.whisker("classify", "--jsonl", "--", "../" + self.weights, "-dash.png", cwd=odd)
        self.assertEqual(json.loads(dash.stdout)["path"], "-dash.png")
        (odd / os.fsdecode(b"latin\xe9.png")).write_bytes(stripes(0, 1))
        whole = self.whisker("classify", self.weights, "odd", "--json")
        json.loads(whole.stdout)  # names that are no UTF-8 do not break the JSON
        self.whisker("classify", self.weights, "-", input="", code=3)

    def test_config(self):
        printed = self.whisker("config", "print", "c.yaml", "train.epochs=7").stdout
        self.assertIn("epochs: 7", printed)
        (self.folder / "again.yaml").write_text(printed)
        self.assertEqual(self.whisker("config", "print", "again.yaml").stdout, printed)
        self.assertRegex(self.whisker("--version").stdout, r"^whisker \d+\.\d+\.\d+\n$")
        checked = self.whisker("config", "schema", "c.yaml").stdout
        self.whisker("config", "schema", "c.yaml", "train.epochs=x", code=2)
        schema = json.loads(self.whisker("config", "schema").stdout)
        self.assertEqual(json.loads(checked), schema)
        self.assertIn("batch_size", schema["properties"]["train"]["properties"])

    def test_training_from_the_stored_config_repeats_the_run(self):
        first = self.train("repeat", "optimizer.lr=0.02")
        self.whisker("train", "runs/repeat/config.yaml")
        second = self.folder / "runs/repeat-2"
        models = [next((run / "last").glob("model-*")).read_bytes() for run in (first, second)]
        self.assertEqual(*models)

    def test_resume_refuses_what_it_would_ignore(self):
        for option in (["--dry-run"], ["--init", "w.safetensors"]):
            done = self.whisker("train", "--resume", "runs/any", *option, code=2)
            self.assertIn("--resume: not together with --dry-run or --init", done.stderr)

    def test_threads_that_wait_give_way_unless_told_otherwise(self):
        for given, expected in (({}, "1000"), ({"OMP_WAIT_POLICY": "active"}, None), ({"GOMP_SPINCOUNT": "7"}, "7")):
            kept = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
            process = self.start("train", "c.yaml", *self.data, "name=spin", "train.epochs=100000", env={**kept, **given})
            run = self.folder / "runs/spin"
            self.wait_for(run / "log.txt", "first step done")
            facts = pathlib.Path(f"/proc/{process.pid}")
            environment = dict(word.split(b"=", 1) for word in (facts / "environ").read_bytes().split(b"\0") if word)
            self.assertEqual((facts / "comm").read_text(), "whisker\n")
            process.kill()
            process.communicate()
            shutil.rmtree(run)
            spins = environment.get(b"GOMP_SPINCOUNT")
            self.assertEqual(spins and spins.decode(), expected)

    def test_dry_run_leaves_nothing(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=dry", "--dry-run")
        self.assertIn("per epoch", done.stdout)
        self.assertFalse((self.folder / "runs/dry").exists())


class Streams(ProgramTest):
    """stdout holds results only; the rest goes to stderr, and may be silenced or lost."""

    def test_train_prints_the_run_folder_only(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=plain")
        self.assertEqual(done.stdout, "runs/plain\n")
        self.assertIn("epoch 2/2", done.stderr)
        self.assertRegex(done.stderr, r"class +training +share")
        self.assertRegex(done.stderr, r"(?m)^ +c1 +20 +50\.0 %$")
        self.assertNotIn("\x1b", done.stderr)
        log = (self.folder / "runs/plain/log.txt").read_text()
        self.assertIn("epoch 2/2", log)
        self.assertRegex(log, r"first step done \d+\.\d\d s after the program started")
        for line in (self.folder / "runs/plain/metrics.jsonl").read_text().splitlines():
            json.loads(line)

    def test_a_terminal_gets_a_bar_in_one_line(self):
        master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = self.start("train", "c.yaml", *self.data, "name=bar", "train.epochs=100000", stderr=terminal)
        os.close(terminal)
        shown = ""
        begun = time.monotonic()
        while "left\r" not in shown and time.monotonic() - begun < 30:
            shown += read_terminal(master)
        process.send_signal(signal.SIGTERM)
        while rest := read_terminal(master):  # else the program waits for room
            shown += rest
        process.communicate(timeout=60)
        os.close(master)
        self.assertEqual(process.returncode, 75)
        bar = next((line for line in re.split(r"\r\x1b\[K|\r\n|\r", shown) if line.endswith("left")), shown)
        self.assertRegex(bar, r"^epoch \d+ \[=*>? *\] loss \d+\.\d+  acc [01]\.\d+  \d+ examples/s  "
                              r"wait \d+ %  .* left$")
        self.assertLess(len(bar), 80)

    def test_quiet_verbose_and_colour(self):
        self.assertEqual(self.whisker("-q", "train", "c.yaml", *self.data, "name=quiet").stderr, "")
        self.assertEqual(self.whisker("train", "c.yaml", *self.data, "name=quiet2", "-q").stderr, "")
        self.assertIn("data wait", self.whisker("train", "c.yaml", *self.data, "name=loud", "-v").stderr)
        error = ["train", "missing.yaml"]
        self.assertIn("\x1b[31m", self.whisker("--color", "always", *error, code=2).stderr)
        self.assertNotIn("\x1b", self.whisker("--color", "never", *error, code=2).stderr)

    def test_full_stdout_is_a_disk_error_and_full_stderr_is_none(self):
        with open("/dev/full", "w") as full:
            self.whisker("config", "schema", code=6, stdout=full)
            self.train("deaf", stderr=full)
        self.assertTrue((self.folder / "runs/deaf/best.safetensors").exists())

    def test_a_pipe_without_reader_loses_text_but_never_the_run(self):
        reader, writer = os.pipe()
        os.close(reader)
        self.whisker("train", "c.yaml", *self.data, "name=unread", stderr=writer)
        self.whisker("config", "schema", code=6, stdout=writer)
        os.close(writer)
        self.assertTrue((self.folder / "runs/unread/best.safetensors").exists())

    def test_closed_streams(self):
        self.whisker("train", "c.yaml", *self.data, "name=closed", code=6,
                     preexec_fn=lambda: os.close(1), stdout=None)
        self.assertTrue((self.folder / "runs/closed/best.safetensors").exists())


class ExitCodes(ProgramTest):
    """INTEROP's table, each by what causes it."""

    def refused(self, code, says, *arguments, **options):
        done = self.whisker(*arguments, code=code, **options)
        self.assertEqual(done.stdout, "")
        self.assertIn(says, done.stderr)
        self.assertTrue(done.stderr.startswith("whisker: error: "), done.stderr)
        return done

    def test_usage_is_2(self):
        self.refused(2, "got 'trian'. Did you mean 'train'?\nSee 'whisker --help'.", "trian")
        self.refused(2, "expected a subcommand (train, evaluate, classify,")
        self.refused(2, "data: expected a subcommand (check, stats, generate, arrange), got 'chekc'. "
                     "Did you mean 'check'?\nSee 'whisker data --help'.", "data", "chekc", "train")
        self.refused(2, "unknown option '--no-such'", "train", "c.yaml", "--no-such")
        self.refused(2, "Did you mean '--dry-run'?", "train", "c.yaml", "--dryrun")
        self.refused(2, "--batch: expected a number above 0, got '-1'", "study", "trace", "c.yaml", "--batch", "-1")
        self.refused(2, "missing.yaml", "train", "missing.yaml")
        self.refused(2, "Did you mean 'epochs'?", "train", "c.yaml", *self.data, "train.epoch=3")
        self.refused(2, "command line: train.epochs: expected an integer", "train", "c.yaml", "train.epochs=x")
        self.refused(2, "data.train", "train", "c.yaml")
        self.refused(2, "expected a configuration file", "train")
        self.refused(2, "expected files, folders", "classify", "w.safetensors")
        (self.folder / "bad.yaml").write_text("model: [\n")
        self.refused(2, "bad.yaml:", "config", "print", "bad.yaml")
        (self.folder / "layers.yaml").write_text(CONFIG.replace("filters: 8", "filtres: 8"))
        self.refused(2, "layers.yaml:5:", "train", "layers.yaml", *self.data)
        self.assertFalse((self.folder / "runs/run").exists(), "a run that cannot start leaves no folder")

    def test_data_is_3(self):
        self.refused(3, "missing.zip does not exist", "data", "arrange", "missing.zip", "new")
        self.refused(3, "nowhere", "train", "c.yaml", "data.train=nowhere", "data.val=val")
        (self.folder / "one/c0").mkdir(parents=True)
        (self.folder / "one/c0/1.png").write_bytes(stripes(0, 1))
        self.refused(3, "one", "train", "c.yaml", "data.train=one", "data.val=val")

    def test_checkpoint_is_4(self):
        (self.folder / "weights.safetensors").write_bytes(b"\x80\x04 not weights")
        self.refused(4, "weights.safetensors", "classify", "weights.safetensors", "val")
        self.refused(4, "missing.safetensors", "evaluate", "missing.safetensors", "val")
        self.refused(4, "not a run folder", "train", "--resume", "val")
        run = self.train("damaged")
        self.refused(4, "runs/damaged: expected a weights file, got a folder. Give runs/damaged/best.safetensors.",
                     "classify", "runs/damaged", "val")
        model = next((run / "last").glob("model-*"))
        content = bytearray(model.read_bytes())
        content[-1] ^= 1
        model.write_bytes(content)
        self.whisker("train", "--resume", "runs/damaged", "train.epochs=4", code=4)
        self.refused(2, "'optimizer.lr=1' would make another run of this one. A resumed run may change the keys "
                     "marked with * in 'whisker config keys'.", "train", "--resume", "runs/damaged", "optimizer.lr=1")

    def test_device_is_5(self):
        run = self.train("elsewhere")
        for number in (63, 99):  # more GPUs than a machine has, more than the program knows
            device = f"cuda:{number}"
            said = f"device {device}: "
            self.refused(5, said, "train", "c.yaml", *self.data, "name=nowhere", f"device={device}")
            self.refused(5, said, "train", "c.yaml", *self.data, "--dry-run", f"device={device}")
            self.refused(5, said, "train", "--resume", "runs/elsewhere", "train.epochs=3", f"device={device}")
            self.refused(5, said, "classify", run / "best.safetensors", "val", "--device", device)
        self.assertFalse((self.folder / "runs/nowhere").exists())
        self.refused(2, "device: expected cpu, reference, cuda or cuda:N, got 'cuda:x'",
                     "train", "c.yaml", *self.data, "device=cuda:x")

    def test_a_gpu_opens_only_what_layers_need(self):
        dense = CONFIG[:CONFIG.index("  layers:")] + "  layers: [flatten, {dense: {units: classes}}]\n"
        (self.folder / "dense.yaml").write_text(dense + "train: {epochs: 1, batch_size: 8}\n")
        for config, times in (("dense.yaml", r"cuBLASLt 0\.\d{3}, cuDNN 0\.000,"),
                              ("c.yaml", r"cuBLASLt \d\.\d{3}, cuDNN (?!0\.000)")):
            done = self.whisker("train", config, *self.data, "name=opens", "device=cuda", "-v", code=None)
            if done.returncode == 5:
                self.skipTest(done.stderr)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, times)

    def with_a_broken_driver(self, seconds):
        """The environment of a program whose CUDA driver fails after so long."""
        environment = dict(os.environ, LD_LIBRARY_PATH=os.environ["WHISKER_FAKE_CUDA"],
                           WHISKER_FAKE_CUDA_SECONDS=str(seconds))
        done = self.whisker("train", "c.yaml", *self.data, "name=broken", "device=cuda", code=5,
                            env=dict(environment, WHISKER_FAKE_CUDA_SECONDS="0"))
        if "this build has no CUDA backend" in done.stderr:
            self.skipTest("built without CUDA")
        return environment

    def test_a_driver_that_does_not_start(self):
        environment = self.with_a_broken_driver(0.2)
        says = "device cuda:0: the NVIDIA driver did not start (error 999: broken on purpose)"
        self.refused(5, says, "train", "c.yaml", *self.data, "name=broken", "device=cuda", env=environment)
        self.assertFalse((self.folder / "runs/broken").exists())
        run = self.train("by_cpu", env=environment, code=0)
        self.refused(5, says, "classify", run / "best.safetensors", "val", "--device", "cuda", env=environment)

    def test_a_driver_that_takes_long_keeps_no_error_back(self):
        environment = self.with_a_broken_driver(6)
        (self.folder / "slow.yaml").write_text(CONFIG.replace("filters: 8", "filtres: 8"))
        for config, says, code in (("slow.yaml", "filtres", 2), ("c.yaml", "nowhere", 3)):
            begun = time.monotonic()
            process = self.start("train", config, *self.data, "device=cuda",
                                 *(["data.train=nowhere"] if code == 3 else []), env=environment)
            self.assertIn(says, process.stderr.readline())
            self.assertLess(time.monotonic() - begun, 5)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, code)

    def test_diverged_is_7(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=up", "optimizer.lr=1e38",
                            "optimizer.kind=sgd", code=7)
        self.assertIn("Lower optimizer.lr", done.stderr)

    def test_signals(self):
        for number, code in ((signal.SIGTERM, 75), (signal.SIGHUP, 75), (signal.SIGINT, 130)):
            name = f"stop{int(number)}"
            run = self.folder / "runs" / name
            process = self.start("train", "c.yaml", *self.data, f"name={name}", "train.epochs=100000",
                                 "train.log_every=1")
            self.wait_for_steps(run, 3)
            process.send_signal(number)
            asked = time.monotonic()
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, code, err)
            self.assertLess(time.monotonic() - asked, 20)
            self.assertIn("--resume", err)
            step = json.loads((run / "last/state.json").read_text())["step"]
            epoch = json.loads((run / "last/state.json").read_text())["epoch"]
            self.whisker("train", "--resume", f"runs/{name}", f"train.epochs={epoch + 1}")
            self.assertGreaterEqual(json.loads((run / "last/state.json").read_text())["step"], step)

    def wait_for_steps(self, run, count):
        self.wait_for(run / "metrics.jsonl", '"step"', count)

    def test_second_interrupt_is_immediate(self):
        # A step that takes long: the second SIGINT must not wait for its end.
        process = self.start("train", "c.yaml", *self.data, "name=twice", "data.image_size=400",
                             "train.batch_size=40", "train.accumulate=4096", "train.epochs=100000")
        self.wait_for(self.folder / "runs/twice/log.txt", "training and")  # said once signals are caught
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)

    def test_one_writer(self):
        process = self.start("train", "c.yaml", *self.data, "name=busy", "train.epochs=100000",
                             "train.log_every=1")
        self.wait_for_steps(self.folder / "runs/busy", 1)
        self.refused(2, "is writing to it", "train", "--resume", "runs/busy")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)


class Kills(ProgramTest):
    """Whatever the moment of a kill or a signal, what is on disk resumes to the same bits."""

    settings = ["train.epochs=6", "checkpoint.every=1", "ema.decay=0.9", "augment.horizontal_flip=true"]

    def model_of(self, run):
        state = json.loads((run / "last/state.json").read_text())
        return (state["step"], (run / "last" / state["model"]["name"]).read_bytes(),
                (run / "last" / state["optimizer"]["name"]).read_bytes())

    def interrupt(self, name, number, moment):
        """Starts a run and sends it `number` after `moment` seconds; returns its exit code."""
        process = self.start("train", "c.yaml", *self.data, f"name={name}", *self.settings)
        time.sleep(moment)
        process.send_signal(number)
        process.communicate(timeout=60)
        return process.returncode

    def test_kills_and_signals_at_random_moments(self):
        begun = time.monotonic()
        expected = self.model_of(self.train("whole", *self.settings))
        seconds = time.monotonic() - begun
        generator = random.Random(20)
        # SIGKILL 20 or 200 times, SIGTERM 10 or 100 times.
        for number, count in ((signal.SIGKILL, 200 if LONG else 20), (signal.SIGTERM, 100 if LONG else 10)):
            hit = resumed = 0
            for i in range(count):
                name = f"sent{int(number)}_{i}"
                code = self.interrupt(name, number, generator.uniform(0.02, 1) * seconds)
                run = self.folder / "runs" / name
                if number == signal.SIGTERM:
                    self.assertIn(code, (0, 75, -signal.SIGTERM))
                hit += code != 0
                if (run / "last/state.json").exists():
                    self.whisker("train", "--resume", f"runs/{name}")
                    self.assertEqual(self.model_of(run), expected, f"{name}: other bits")
                    resumed += 1
                else:
                    # Nothing was saved yet: a resume says so, and no half file passes for one.
                    self.whisker("train", "--resume", f"runs/{name}", code=4)
                shutil.rmtree(run, ignore_errors=True)
            print(f"{signal.Signals(number).name}: {count} sent, {hit} in time, {resumed} resumed to the same bits")
            self.assertGreater(resumed, count // 4)

    def test_control_a_writer_in_place_is_torn(self):
        # The same kill on a writer that overwrites its file: readers must find it torn.
        torn = 0
        content = os.urandom(1 << 16)
        target = self.folder / "in_place"
        for i in range(20):
            target.write_bytes(content)
            child = os.fork()
            if child == 0:
                while True:
                    with open(target, "wb", buffering=0) as file:
                        for at in range(0, len(content), 256):
                            file.write(content[at:at + 256])
            time.sleep(0.005 + 0.001 * i)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            torn += target.read_bytes() != content
        print(f"written in place and killed: {torn} of 20 torn")
        self.assertGreater(torn, 0)


if __name__ == "__main__":
    unittest.main()
