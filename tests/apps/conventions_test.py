"""The conventions of the command line: streams, exit codes and signals.

    conventions_test.py [SUITE] [-v]     with $WHISKER naming the program
"""

import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import stat
import struct
import subprocess
import termios
import time
import unittest

from harness import CONFIG, PROGRAM, ProgramTest, png, read_all, stripes


def read_terminal(master):
    """What the program wrote since; "" once it has closed its end."""
    try:
        return os.read(master, 4096).decode()
    except OSError:
        return ""


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

    def terminal(self, columns):
        """The two ends of a terminal so wide."""
        master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        return master, terminal

    time_left = r"(\d+ s of this epoch, .* of the run|.* left)"

    def bar(self, columns):
        master, terminal = self.terminal(columns)
        process = self.start("train", "c.yaml", *self.data, f"name=bar{columns}", "train.epochs=100000", stderr=terminal)
        os.close(terminal)
        shown = ""
        begun = time.monotonic()
        while not re.search(self.time_left + "\r", shown) and time.monotonic() - begun < 30:
            shown += read_terminal(master)
        process.send_signal(signal.SIGTERM)
        while rest := read_terminal(master):  # else the program blocks
            shown += rest
        process.communicate(timeout=60)
        os.close(master)
        self.assertEqual(process.returncode, 75)
        lines = re.split(r"\r\x1b\[K|\r\n|\r", shown)
        return next((line for line in lines if re.search(self.time_left + "$", line)), shown)

    def test_a_terminal_gets_a_bar_in_one_line(self):
        bar = self.bar(80)
        self.assertRegex(bar, r"^epoch \d+/100000 \[=*>? *\] loss \d+\.\d+  .*\d+ s of this epoch, .* of the run$")
        self.assertLess(len(bar), 80)
        narrow = self.bar(40)
        self.assertRegex(narrow, r"^epoch \d+/100000 \[=*>? *\] .* left$")
        self.assertLess(len(narrow), 40)

    def test_a_matrix_is_as_wide_as_its_terminal(self):
        run = self.train("matrix")
        for columns, numbered in ((80, False), (8, True)):
            master, terminal = self.terminal(columns)
            process = subprocess.Popen([PROGRAM, "evaluate", run / "best.safetensors", "val"], cwd=self.folder,
                                       stdout=terminal, stderr=subprocess.DEVNULL)
            os.close(terminal)
            shown = read_all(master)
            self.assertEqual(process.wait(timeout=60), 0)
            os.close(master)
            matrix = shown.partition("confusion matrix")[2].splitlines()[1:]
            self.assertRegex(matrix[0], "^ +1  2$" if numbered else "^ +c0  c1$")
            self.assertLessEqual(max(map(len, matrix)), columns)

    def test_quiet_verbose_and_colour(self):
        self.assertEqual(self.whisker("-q", "train", "c.yaml", *self.data, "name=quiet").stderr, "")
        self.assertEqual(self.whisker("train", "c.yaml", *self.data, "name=quiet2", "-q").stderr, "")
        self.assertIn("data wait", self.whisker("train", "c.yaml", *self.data, "name=loud", "-v").stderr)
        error = ["train", "missing.yaml"]
        self.assertIn("\x1b[31m", self.whisker("--color", "always", *error, code=2).stderr)
        self.assertNotIn("\x1b", self.whisker("--color", "never", *error, code=2).stderr)

    def test_full_stdout_is_a_disk_error_and_full_stderr_is_none(self):
        with open("/dev/full", "w") as full:
            for arguments in (["config", "schema"], ["--help"], ["train", "--help"], ["--version"], ["completion", "bash"]):
                self.whisker(*arguments, code=6, stdout=full)
            self.train("deaf", stderr=full)
        self.assertTrue((self.folder / "runs/deaf/best.safetensors").exists())

    def test_a_pipe_without_reader_loses_text_but_never_the_run(self):
        reader, writer = os.pipe()
        os.close(reader)
        self.whisker("train", "c.yaml", *self.data, "name=unread", stderr=writer)
        for arguments in (["config", "schema"], ["config", "keys"], ["--help"], ["classify", "runs/unread/best.safetensors", "val"]):
            done = self.whisker(*arguments, code=-signal.SIGPIPE, stdout=writer)  # 141 in a shell
            self.assertEqual(done.stderr, "")
        os.close(writer)
        self.assertTrue((self.folder / "runs/unread/best.safetensors").exists())

    def test_lines_fit_80_columns(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=narrow", "-v", "train.log_every=1")
        shown = [line for line in done.stderr.splitlines()
                 if re.match("epoch|  val|  time|  [0-9.]+ s$|  logging|  checkpoint", line)]
        self.assertGreater(len(shown), 4)
        self.assertLessEqual(max(map(len, shown)), 80, shown)
        self.assertIn("  val loss", done.stderr)

    def test_closed_streams(self):
        self.whisker("train", "c.yaml", *self.data, "name=closed", code=6,
                     preexec_fn=lambda: os.close(1), stdout=None)
        self.assertTrue((self.folder / "runs/closed/best.safetensors").exists())


class ExitCodes(ProgramTest):
    """The table of docs/reference/command_line.md, each by what causes it."""

    def refused(self, code, says, *arguments, **options):
        done = self.whisker(*arguments, code=code, **options)
        self.assertEqual(done.stdout, "")
        self.assertIn(says, done.stderr)
        self.assertTrue(done.stderr.startswith("whisker: error: "), done.stderr)
        return done

    def test_usage_is_2(self):
        self.refused(2, "got 'trian'. Did you mean 'train'?\n  See 'whisker --help'.", "trian")
        self.refused(2, "expected a subcommand (train, evaluate, classify,")
        self.refused(2, "data: expected a subcommand (check, stats, label-issues, generate), got 'chekc'. "
                     "Did you mean 'check'?\n  See 'whisker data --help'.", "data", "chekc", "train")
        self.refused(2, "unknown option '--no-such'", "train", "c.yaml", "--no-such")
        self.refused(2, "Did you mean '--dry-run'?", "train", "c.yaml", "--dryrun")
        self.refused(2, "--batch-size: expected a number above 0, got '-1'", "study", "trace", "c.yaml", "--batch", "-1")
        for command in (["generate", "w"], ["data", "generate", "d"], ["data", "label-issues", "d"]):
            self.refused(2, "--seed: expected a number from 0 to 9007199254740992, got '-1'", *command, "--seed", "-1")
        self.refused(2, "verbose", "version", "--verbose=abc")
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

    def test_a_long_error_is_cut_unless_asked_for(self):
        run = self.train("cut")
        layers = ", ".join(f"{{dense: {{name: d{i}, units: 3}}}}" for i in range(15))
        arguments = ["train", "c.yaml", *self.data, f"model.layers=[flatten, {layers}]", "--init", str(run / "best.safetensors")]
        lines = self.refused(4, "Check model;", *arguments).stderr.splitlines()
        self.assertIn("nothing was loaded. Check model; init.skip takes patterns", lines[0])
        self.assertEqual(len(lines), 22)
        whole = self.refused(4, "Check model;", *arguments, "-v").stderr.splitlines()
        self.assertEqual(whole[:21], lines[:21])
        self.assertEqual(lines[21], f"  and {len(whole) - 21} more lines, which -v shows")
        self.assertGreater(len(whole), 30)

    def test_data_is_3(self):
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
        self.refused(2, "'optimizer.lr=1' cannot change in a resumed run. It may change the keys "
                     "marked with * in 'whisker config keys'.", "train", "--resume", "runs/damaged", "optimizer.lr=1")

    def test_a_configuration_in_weights_is_4(self):
        run = self.train("inner")
        content = (run / "best.safetensors").read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        for old, new in (("conv2d", "conv9d"), ("filters: 8", "filters: -8"), ("model:", "model: [")):
            header = json.loads(content[8:8 + length])
            metadata = header["__metadata__"]
            self.assertIn(old, metadata["config"])
            metadata["config"] = metadata["config"].replace(old, new)
            text = json.dumps(header).encode()
            (self.folder / "inner.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:])
            for arguments in (["classify", "inner.safetensors", "val"], ["evaluate", "inner.safetensors", "val"],
                              ["train", "c.yaml", *self.data, "model=from_weights", "--init", "inner.safetensors"]):
                self.refused(4, "inner.safetensors: config:", *arguments)

    def test_a_file_that_grows_too_large_is_6(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        self.train("large", code=6, preexec_fn=limit)
        with open(self.folder / "keys.txt", "w") as file:
            self.whisker("config", "keys", code=6, stdout=file, preexec_fn=limit)

    def test_a_run_folder_that_is_removed_is_6(self):
        process = self.start("train", "c.yaml", *self.data, "name=removed", "train.epochs=100000")
        run = self.folder / "runs/removed"
        self.wait_for(run / "log.txt", "epoch 1/")
        run.rename(self.folder / "elsewhere")
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 6, error)
        self.assertIn("whisker: error: runs/removed: the run folder was removed while the run wrote to it", error)

    def test_an_error_stands_in_the_log(self):
        self.whisker("train", "c.yaml", *self.data, "name=logged", "optimizer.lr=1e38", "optimizer.kind=sgd", code=7)
        self.assertIn("error: training diverged", (self.folder / "runs/logged/log.txt").read_text())

    @unittest.skipIf(os.environ.get("WHISKER_SANITIZE"), "sanitizers reserve addresses")
    def test_threads_that_cannot_start_are_5(self):
        arguments = ["train", "c.yaml", *self.data, "name=threads", "train.epochs=1"]
        many = {**os.environ, "OMP_NUM_THREADS": "64"}

        def limit():
            resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, resource.RLIM_INFINITY))  # each thread's
            resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))
        self.refused(5, "compute threads could be started. Ask for fewer (OMP_NUM_THREADS", *arguments, env=many,
                     preexec_fn=limit)
        self.refused(2, "OMP_NUM_THREADS: expected at most 4096 threads, got 99999", *arguments,
                     env={**os.environ, "OMP_NUM_THREADS": "99999"})
        self.whisker(*arguments, env=many)  # control: without the limit they start

    @unittest.skipUnless(os.geteuid() == 0, "needs a user without other processes")
    def test_a_limit_on_processes_is_5(self):
        for path in [self.folder, *self.folder.rglob("*")]:
            path.chmod(path.stat().st_mode | stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0))
        other = {"user": 54321, "group": 54321}
        try:
            self.whisker("version", **other)
        except PermissionError as error:
            self.skipTest(f"the program lies where other users may not go: {error}")
        for most in (1, 3):
            def limit():
                resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
            env = {**os.environ, "OMP_NUM_THREADS": "8", "XDG_CACHE_HOME": "/nonexistent",
                   "ASAN_OPTIONS": "detect_leaks=0"}  # which takes a process of its own
            self.refused(5, "(ulimit -u)", "train", "c.yaml", *self.data, "runs=/nonexistent", env=env, preexec_fn=limit,
                         **other)

    @unittest.skipIf(os.environ.get("WHISKER_SANITIZE"), "sanitizers reserve addresses")
    def test_tiny_address_spaces_end_with_a_message(self):
        convolutions = "model.layers=[{conv2d: {filters: 64, kernel: 3}}, {conv2d: {filters: 64, kernel: 3}}, global_avg_pool2d]"
        codes = []
        for mebibytes in (40, *range(60, 260, 5)):
            def limit():
                resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))
            done = self.whisker("train", "c.yaml", *self.data, "name=tiny", "data.image_size=64", "train.epochs=1",
                                "data.workers=0", convolutions, code=None, preexec_fn=limit)
            self.assertIn(done.returncode, (0, 5, 127), f"{mebibytes}\n{done.stderr}")  # 127: ld.so was out of memory
            self.assertNotEqual(done.stderr, "")
            codes.append(done.returncode)
        self.assertGreater(codes.count(5), 3, codes)

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
        self.refused(2, "device: expected auto, cpu, reference, cuda or cuda:N, got 'cuda:x'",
                     "train", "c.yaml", *self.data, "device=cuda:x")
        for command in ("classify", "evaluate", "generate"):
            self.assertIn("auto, cpu, reference, cuda or cuda:N", self.whisker(command, "--help").stdout)

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


if __name__ == "__main__":
    unittest.main()
