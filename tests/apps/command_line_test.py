"""What classify, config and train take on the command line, and what they print.

    command_line_test.py [-v]            with $WHISKER naming the program
"""

import json
import os
import pathlib
import re
import shutil
import unittest

from harness import ProgramTest, png, stripes


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
        images = ["val/c0/500.png", "val/c1/500.png"]
        text = self.whisker("classify", self.weights, *images, "--top", "2").stdout.splitlines()
        self.assertEqual([line.split(":")[0] for line in text], images)
        self.assertRegex(text[0], r"^val/c0/500\.png:(  c[01] [01]\.\d{4}){2}$")
        whole = json.loads(self.whisker("classify", self.weights, *images, "--json", "--top", "2").stdout)
        self.assertEqual(whole["schema_version"], 2)
        self.assertEqual([p["path"] for p in whole["images"]], images)
        self.assertAlmostEqual(sum(p["probability"] for p in whole["images"][0]["predictions"]), 1, places=4)
        lines = self.whisker("classify", self.weights, *images, "--jsonl", "--top", "2").stdout.splitlines()
        self.assertEqual([json.loads(line) for line in lines], whole["images"])

    def test_classify_tells_where_its_time_goes(self):
        start = self.whisker("classify", self.weights, "val/c0/500.png", "--device", "cpu", "-v").stderr
        phases = [line.split(" s  ") for line in start.splitlines()]
        self.assertEqual([what for _, what in phases],
                         ["arguments read", "device ready", "network loaded", "inputs classified"])
        self.assertEqual(phases, sorted(phases, key=lambda phase: float(phase[0])))
        self.assertNotIn("device: auto", start)
        auto = self.whisker("classify", self.weights, "val/c0/500.png", "-v").stderr
        self.assertIn("device: auto is the CPU: up to 32 images take less time than the start of a GPU.", auto)
        self.assertEqual(self.whisker("classify", self.weights, "val/c0/500.png").stderr, "")

    def test_classify_goes_on_past_broken_images(self):
        (self.folder / "broken.jpg").write_bytes(b"\xff\xd8\xff no image")
        inputs = ["val/c0/500.png", "broken.jpg", "missing.png", "val/c1/500.png"]
        done = self.whisker("classify", self.weights, *inputs, code=3)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn("broken.jpg", done.stderr)
        self.assertIn("missing.png", done.stderr)
        whole = json.loads(self.whisker("classify", self.weights, *inputs, "--json", code=3).stdout)
        self.assertEqual(["error" in p for p in whole["images"]], [False, True, True, False])
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
        self.assertIn("7 of 8 files used: 1 hidden", self.whisker("classify", self.weights, "odd").stderr)
        self.assertEqual(self.whisker("classify", self.weights, "odd", "-q").stderr, "")
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

    def test_a_run_repeats_from_its_own_folder(self):
        """Whatever its user's cache of algorithms says meanwhile; not with other threads."""
        wide = ["runtime.threads=1", "model.layers=[{conv2d: {filters: 32, kernel: 3}}, {conv2d: {filters: 32, kernel: "
                "3, activation: relu}}, global_avg_pool2d]", "schedule.kind=one_cycle", "train.epochs=1000000",
                "train.time_budget_minutes=1"]
        first = self.folder / "runs/own"
        process = self.start("train", "c.yaml", *self.data, "name=own", *wide)
        self.wait_for(first / "log.txt", " of 1000000 epochs fit, at ")
        process.terminate()
        process.communicate()
        self.assertEqual(process.returncode, 75)
        cache = pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "whisker/cpu_algorithms.json"
        if cache.exists():
            swapped = {"direct": "winograd", "winograd": "direct"}
            cache.write_text(re.sub('"(direct|winograd)"', lambda found: f'"{swapped[found[1]]}"', cache.read_text()))
        done = self.whisker("train", "--repeat", first)
        self.assertEqual(done.stdout, "runs/own-2\n")
        self.assertIn("repeats", done.stderr)
        self.assertIn("the weights are those of " + str(first) + ", bit for bit", done.stderr)
        models = [next((self.folder / run / "last").glob("model-*")).read_bytes() for run in ("runs/own", "runs/own-2")]
        self.assertEqual(*models)
        done = self.whisker("train", "--repeat", first, "runtime.threads=2", code=4)
        self.assertIn("threads: 1 then, 2 now", done.stderr)
        self.assertFalse((self.folder / "runs/own-3").exists())
        done = self.whisker("train", "--repeat", first, "optimizer.lr=0.5", code=2)
        self.assertIn("--repeat: 'optimizer.lr=0.5' would make another run", done.stderr)
        for option in (["--resume", first], ["--init", "w"], ["--dry-run"]):
            self.assertIn("--repeat: not together with", self.whisker("train", "--repeat", first, *option, code=2).stderr)
        self.train("grown", "train.epochs=1", "schedule.kind=cosine", "runtime.threads=1")
        done = self.whisker("train", "--resume", "runs/grown", "train.epochs=2")
        self.assertIn("continues at epoch 2, step 6", done.stderr)
        done = self.whisker("train", "--repeat", "runs/grown", code=4)
        self.assertIn("runs/grown cannot be repeated: its schedule changed when it was resumed at step 6.", done.stderr)

    def test_resume_refuses_what_it_would_ignore(self):
        for option in (["--dry-run"], ["--init", "w.safetensors"]):
            done = self.whisker("train", "--resume", "runs/any", *option, code=2)
            self.assertIn("--resume: not together with --dry-run or --init", done.stderr)

    def test_resume_names_init_for_other_settings(self):
        done = self.whisker("train", "--resume", "runs/base", "schedule.gamma=0.5", code=2)
        self.assertIn("Leave it out, or start a new run with --init runs/base/best.safetensors.", done.stderr)

    def test_a_longer_run_says_what_its_rate_will_do(self):
        self.train("longer", "schedule.kind=one_cycle")
        done = self.whisker("train", "--resume", "runs/longer", "train.epochs=4", "schedule.restart=2")
        said = done.stderr.splitlines()
        change = next(i for i, line in enumerate(said) if "schedule.restart was 0 and is 2 now" in line)
        self.assertLess(change, next(i for i, line in enumerate(said) if line.startswith("epoch 3/4")))
        self.assertIn("restart: 2", (self.folder / "runs/longer/config.yaml").read_text())

    def test_json_of_what_is_shown_for_people(self):
        version = json.loads(self.whisker("version", "--json").stdout)
        self.assertEqual(version["schema_version"], 1)
        self.assertEqual(f"whisker {version['version']}\n", self.whisker("--version").stdout)
        for key in ("architecture", "compiler", "computes_with", "processor", "instructions"):
            self.assertIn(version[key], self.whisker("version").stdout)
        summary = json.loads(self.whisker("summary", "c.yaml", *self.data, "--json").stdout)
        text = self.whisker("summary", "c.yaml", *self.data).stdout
        self.assertEqual((summary["schema_version"], summary["batch"], summary["input"]), (1, 8, [8, 16, 16, 3]))
        self.assertEqual((summary["classes"], summary["classes_assumed"]), (2, False))
        self.assertIn(f"parameters {sum(layer['parameters'] for layer in summary['layers'])}:", text)
        self.assertEqual(summary["parameters"], summary["trainable"] + summary["frozen"])
        self.assertEqual([layer["name"] for layer in summary["layers"]],
                         [line.split()[0] for line in text.split("\n\n")[0].splitlines()[2:]])
        training = summary["training"]
        self.assertEqual(training["total_bytes"], sum(training.values()) - training["total_bytes"])
        trace = json.loads(self.whisker("study", "trace", "c.yaml", *self.data, "--json").stdout)
        self.assertEqual(trace["schema_version"], 1)
        self.assertIn("on cpu", trace["network"])
        names = [entry["name"] for entry in trace["entries"]]
        for name in ("images", "conv2d.weight", "conv2d", "cross_entropy"):
            self.assertIn(name, names)
        for i, entry in enumerate(trace["entries"]):
            self.assertTrue(all(source < i for source in entry["inputs"]), entry)
        self.assertGreater(max(entry["backward_step"] for entry in trace["entries"]), 0)

    def test_gradcheck_alone_lists_what_can_be_checked(self):
        listed = self.whisker("study", "gradcheck").stdout
        operators = [line.split()[0] for line in listed.split("\n\n")[0].splitlines()[2:]]
        for name in ("conv2d", "relu", "batch_norm"):
            self.assertIn(name, operators)
        self.whisker("study", "gradcheck", operators[-1])
        unknown = self.whisker("study", "gradcheck", "qqqqqqqqqqqq", code=2).stderr
        self.assertIn(f"Operators: all, {', '.join(operators)}.", unknown)

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


if __name__ == "__main__":
    unittest.main()
