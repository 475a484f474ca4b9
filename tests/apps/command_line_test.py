"""What classify, config and train take on the command line, and what they print.

    command_line_test.py [-v]            with $WHISKER naming the program
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import termios
import time
import unittest

from harness import ProgramTest, png, read_all, stripes


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
        config = (self.folder / "runs/grown/config.yaml").read_bytes()
        done = self.whisker("train", "--resume", "runs/grown", "train.epochs=1")
        self.assertIn("nothing to do: 2 of 1 epoch are done", done.stderr)
        self.assertEqual((self.folder / "runs/grown/config.yaml").read_bytes(), config)
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
                         [line.split()[0] for line in text.split("\n\n")[0].splitlines()[3:]])
        training = summary["training"]
        self.assertEqual(training["total_bytes"], sum(training.values()) - training["total_bytes"])
        trace = json.loads(self.whisker("study", "trace", "c.yaml", *self.data, "--json").stdout)
        self.assertEqual(trace["schema_version"], 2)
        self.assertIn("on cpu", trace["network"])
        names = [entry["name"] for entry in trace["entries"]]
        for name in ("images", "conv2d.weight", "conv2d", "cross_entropy"):
            self.assertIn(name, names)
        for i, entry in enumerate(trace["entries"]):
            self.assertTrue(all(source < i for source in entry["inputs"]), entry)
        self.assertGreater(max(entry["backward_step"] for entry in trace["entries"]), 0)
        narrow = json.loads(self.whisker("study", "trace", "c.yaml", *self.data, "precision=bf16", "--json").stdout)
        self.assertIn("bf16 on cpu", narrow["network"])
        self.assertEqual([{entry["name"]: entry["outputs"][0]["dtype"] for entry in one["entries"]}["conv2d"]
                          for one in (trace, narrow)], ["f32", "bf16"])
        self.assertIn("precision", self.whisker("study", "trace", "c.yaml", *self.data, "precision=f16", code=2).stderr)

    def test_every_view_of_study_prints_json(self):
        def printed(*command, code=0, **options):
            done = self.whisker("study", *command, "--json", code=code, **options)
            found = json.loads(done.stdout)
            self.assertGreaterEqual(found.pop("schema_version"), 1, command)
            return found
        for view in ("step", "trace", "graph", "memory", "roofline"):
            self.assertTrue(printed(view, "mlp", "device=reference"), view)
        self.assertTrue(printed("gradcheck", "mlp"))
        self.assertTrue(printed("compare", "mlp", "precision=f64", "device=reference")["agree"])
        self.assertEqual(printed("why", "mlp", "w1", "device=reference")["alive"], True)
        graph = printed("graph", "mlp", "-o", "json.html", "device=reference")
        page = (self.folder / "json.html").read_text()
        self.assertEqual(json.loads(page.split('id="data">')[1].split("</script>")[0])["entries"][0]["outputs"],
                         graph["entries"][0]["outputs"])
        record = printed("record", "mlp", "-o", "json.safetensors", "device=reference")
        self.assertEqual([entry["name"] for entry in record["entries"]],
                         [entry["name"] for entry in graph["entries"]])
        for view in ("step", "trace", "memory", "roofline", "why"):  # whose title is longer than a line
            shown = self.whisker("study", view, "attention", *(["wq"] if view == "why" else [])).stdout
            self.assertLessEqual(max(map(len, shown.splitlines())), 100, view)
        state = {"env": {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}}
        listed = printed("exercises", **state)["exercises"]
        self.assertEqual([(one["name"], one["lesson"]) for one in listed if one["next"]], [("chain_rule", 1)])
        self.assertIsNone(listed[-1]["lesson"])
        (self.folder / "mul.cpp").write_text((pathlib.Path(listed[0]["task"]).parent.parent / "mul/answer.cpp").read_text())
        graded = printed("grade", "mul", "mul.cpp", code=1, **state)
        self.assertEqual((graded["exercise"], graded["right"]), ("mul", False))
        self.assertEqual(graded["causes"], ["da, db: it is 0 everywhere, as it was before the call"])
        self.whisker("study", "grade", "mul", "--hint", "--json", code=2)

    def test_study_says_why_a_gradient_dies_and_who_holds_the_memory(self):
        dead = ("-e", "sum(relu(x))", "x=[-1, 2]")
        why = json.loads(self.whisker("study", "why", *dead, "x", "0", "--json").stdout)
        self.assertEqual((why["schema_version"], why["parameter"], why["element"], why["alive"]), (1, "x", 0, False))
        self.assertEqual([end["cause"] for end in why["ends"]], ["dead relu"])
        self.assertEqual([hop["entry"] for hop in why["paths"][0]], ["2 sum", "1 relu", "x"])
        self.assertIn("lives", self.whisker("study", "why", *dead, "x", "1").stdout)
        self.whisker("study", "record", "c.yaml", *self.data, "-o", "why.safetensors")
        shown = self.whisker("study", "why", "why.safetensors", "conv2d.weight").stdout
        self.assertIn("conv2d.weight (", shown)
        self.assertLessEqual(max(map(len, shown.splitlines())), 100)
        run = self.train("why", "train.epochs=1").relative_to(self.folder)
        norms = []
        for weights, says in ((), "weights those that training begins with; init.from=WEIGHTS decides otherwise"), \
                             ((f"init.from={run}/best.safetensors",), f"loaded from {run}/best.safetensors"):
            why = self.whisker("study", "why", f"{run}/config.yaml", "conv2d.weight", *weights, "--json")
            self.assertIn(says, why.stderr)
            self.assertIn("study: inputs are random numbers of seed=", why.stderr)
            norms.append(json.loads(why.stdout)["gradient_norm"])
        self.assertNotEqual(*norms)
        for says, words in (("did you mean 'conv2d.weight'?", ["why.safetensors", "conv2d.wieght"]),
                            ("INDEX: expected 1 number ", [*dead, "x", "2"]),
                            ("INDEX: expected 1 number ", [*dead, "x", "0,0"]),
                            ("expected the name of a parameter", ["mlp"]),
                            ("got 'more' besides", ["mlp", "w1", "0,0", "more"])):
            self.assertIn(says, self.whisker("study", "why", *words, code=2).stderr)
        said = self.whisker("study", "step", "c.yaml", "data.train=nowhere", "loss.class_weights=balanced",
                            "--script", "q").stderr
        self.assertIn("study: assumed, with nothing at data.train: 2 classes; --classes N or data.train=PATH decides "
                      "otherwise\n", said)
        self.assertIn("; all classes weigh the same, as loss.class_weights needs the data's counts; "
                      "study why -e 'cross_entropy(x, t, class_weight=c)' shows what weights do\n", said)
        self.assertNotIn("assumed", self.whisker("study", "trace", "c.yaml", *self.data).stderr)
        memory = json.loads(self.whisker("study", "memory", "c.yaml", *self.data, "--json").stdout)
        self.assertEqual(memory["schema_version"], 1)
        self.assertEqual(memory["peak_bytes"], sum(part["bytes"] for part in memory["parts"]))
        self.assertEqual(memory["peak_bytes"], memory["steps"][memory["peak_at"]]["peak_bytes"])
        self.assertEqual(memory["steps"][-1]["operator"], "update")
        kept = self.whisker("study", "memory", "why.safetensors", "--json")
        self.assertEqual(json.loads(kept.stdout), memory)
        self.assertEqual(kept.stderr, "study memory: of the recording, on the machine that made it; study record makes "
                                      "another\n")
        self.assertEqual(self.whisker("study", "memory", "why.safetensors", "--quiet").stderr, "")
        content = (self.folder / "why.safetensors").read_bytes()
        (self.folder / "old.safetensors").write_bytes(content.replace(b'"memory":', b'"mEmory":'))
        self.assertIn("old.safetensors: memory: expected what the step's memory was, got a recording of an older version "
                      "without it. Record the step again; the other views show this file.",
                      self.whisker("study", "memory", "old.safetensors", code=4).stderr)
        self.assertIn("best.safetensors: expected a recording of whisker study record, got another safetensors file.",
                      self.whisker("study", "memory", f"{run}/best.safetensors", code=4).stderr)
        # A recording is written again with the memory that it has, or without.
        copied = self.whisker("study", "record", "old.safetensors", "-o", "new.safetensors")
        self.assertIn("study record: old.safetensors does not say what the step's memory was, nor will the copy;",
                      copied.stderr)
        self.assertNotIn("memory", self.metadata("new.safetensors"))
        self.assertEqual(self.whisker("study", "record", "why.safetensors", "-o", "again.safetensors").stderr, "")
        self.assertEqual(*(self.metadata(f"{name}.safetensors")["memory"] for name in ("why", "again")))
        self.assertIn("Leave --batch-size out",
                      self.whisker("study", "memory", "why.safetensors", "--batch-size", "3", code=2).stderr)
        self.assertIn("-o: expected a name ending in .svg",
                      self.whisker("study", "memory", "mlp", "-o", "m.png", code=2).stderr)

    def test_study_shows_how_gradients_went_over_a_run(self):
        run = self.train("flow", "train.histogram_every=4", "train.epochs=2").relative_to(self.folder)
        shown = self.whisker("study", "gradient-flow", run, "-o", "flow.svg").stdout
        self.assertIn(f"{run}: 3 recorded steps, 1 to 9", shown)
        self.assertLessEqual(max(map(len, shown.splitlines())), 100)
        self.assertIn("Norm of the gradient", (self.folder / "flow.svg").read_text())
        flow = json.loads(self.whisker("study", "gradient-flow", run, "--json").stdout)
        self.assertEqual((flow["schema_version"], flow["steps"]), (1, [1, 5, 9]))
        self.assertTrue(all(len(one["gradient_norm"]) == 3 for one in flow["layers"] + flow["parameters"]))
        self.assertIn("conv2d.weight", [one["name"] for one in flow["parameters"]])
        self.assertEqual(max(one["units"] for one in flow["layers"]), 8)
        bare = self.train("bare", "train.epochs=1").relative_to(self.folder)
        self.assertFalse((self.folder / bare / "histograms.jsonl").exists())
        for says, words in (("recorded nothing of its layers. Train with train.histogram_every=N", [bare]),
                            ("expected the folder of a run, got 'train'", ["train"]),
                            ("-o: expected a name ending in .svg or .html", [run, "-o", "flow.png"])):
            self.assertIn(says, self.whisker("study", "gradient-flow", *words, code=2).stderr)
        rows = self.folder / run / "histograms.jsonl"
        rows.write_text(rows.read_text().replace('"step":5', '"step":1'))
        self.assertIn("histograms.jsonl:2: expected a step above 1",
                      self.whisker("study", "gradient-flow", run, code=3).stderr)

    def test_study_nan_runs_the_step_again_at_which_a_run_diverged(self):
        huge = ("optimizer.kind=sgd", "optimizer.lr=1e30", "precision=bf16")
        run = self.train("huge", *huge, code=7).relative_to(self.folder)
        self.assertIn("whisker study nan runs/huge shows where it began", (self.folder / run / "log.txt").read_text())
        shown = self.whisker("study", "nan", run).stdout
        self.assertIn("ran again in bf16 on cpu", shown)
        self.assertRegex(shown, r"\n  tensor +shape +dtype +minimum +maximum +mean +deviation +NaN or Inf\n")
        self.assertRegex(shown, r"first NaN or Inf: (the result|the gradient)")
        self.assertRegex(shown, rf"{run}/config.yaml:\d+:\d+: model\.(layers|head)\[\d\]")
        self.assertLessEqual(max(map(len, shown.splitlines())), 100)
        found = json.loads(self.whisker("study", "nan", run, "device=reference", "precision=f32", "--json").stdout)
        self.assertEqual((found["schema_version"], found["failed"], found["computed"]),
                         (1, "the loss", "f32 on reference"))
        said = self.whisker("study", "nan", run, "device=reference").stderr
        self.assertIn("computed in bf16 on cpu; reference does not compute in bf16, and runs it in f32", said)
        shutil.rmtree(self.folder / "runs/huge/last")  # nothing but the file and the configuration is read
        self.whisker("study", "nan", run)
        fine = self.train("fine", "train.epochs=1").relative_to(self.folder)
        for code, says, words in ((2, "this run met no NaN or Inf", [fine]), (2, "device and precision", [run, "seed=3"]),
                                  (2, "expected the folder of a run", ["train"]),
                                  (2, "or the file non_finite.safetensors in it", [run / "config.yaml"]),
                                  (4, "expected a file that a diverged run wrote", [fine / "best.safetensors"])):
            self.assertIn(says, self.whisker("study", "nan", *words, code=code).stderr)

    def test_study_compare_names_where_two_steps_part(self):
        self.whisker("study", "record", "residual", "device=reference", "-o", "a.safetensors")
        self.assertIn("A and B agree: differences of at most 0 units",
                      self.whisker("study", "compare", "a.safetensors", "a.safetensors").stdout)
        shown = self.whisker("study", "compare", "residual", "precision=bf16", "device=cpu", "--tolerance=1e-9", code=1)
        self.assertIn("A and B differ", shown.stdout)
        self.assertLessEqual(max(map(len, shown.stdout.splitlines())), 100)
        one = json.loads(self.whisker("study", "compare", "-e", "sum(x * x)", "precision=f64", "device=reference",
                                      "x=[0.1, 3]", "--json").stdout)
        self.assertEqual((one["schema_version"], one["agree"], one["dtype"], one["tensors"][0]["name"]),
                         (1, True, "f32", "x"))
        self.assertGreater(one["tensors"][0]["absolute"], 0)
        for says, words in (("B: expected a recording", ["mlp"]),
                            ("B: expected what differs (device=reference, precision=bf16, seed=1) before the values, got "
                             "'x=[1]'", ["-e", "sum(x * x)", "x=[1]", "precision=bf16"]),
                            ("stays on its device", ["a.safetensors", "device=cpu"])):
            self.assertIn(says, self.whisker("study", "compare", *words, code=2).stderr)

    def test_study_roofline_counts_operations_of_a_network_and_of_a_recording(self):
        shown = self.whisker("study", "roofline", "c.yaml", *self.data)
        self.assertLessEqual(max(map(len, shown.stdout.splitlines())), 100)
        self.assertIn("times are the shortest of ", shown.stdout)
        live = json.loads(self.whisker("study", "roofline", "c.yaml", *self.data, "--json").stdout)
        self.assertEqual(live["schema_version"], 1)
        self.assertTrue(all(one["bytes"] > 0 and one["bound_by"] in ("compute", "memory", "overhead")
                            for one in live["passes"]))
        self.whisker("study", "record", "c.yaml", *self.data, "-o", "roof.safetensors")
        file = json.loads(self.whisker("study", "roofline", "roof.safetensors", "--json").stdout)
        self.assertEqual(file["times"], "times and ceilings are the recording's")
        self.assertEqual([(one["operator"], one["operations"], one["bytes"]) for one in file["passes"]],
                         [(one["operator"], one["operations"], one["bytes"]) for one in live["passes"]])
        again = json.loads(self.whisker("study", "roofline", "roof.safetensors", "--json").stdout)
        self.assertEqual(file, again)
        layers = json.loads(self.whisker("study", "roofline", "roof.safetensors", "--layers", "--json").stdout)
        self.assertAlmostEqual(sum(one["bytes"] for one in layers["passes"]),
                               sum(one["bytes"] for one in file["passes"]))
        content = (self.folder / "roof.safetensors").read_bytes()
        self.assertIn(b"ceilings", content)
        (self.folder / "old.safetensors").write_bytes(content.replace(b"ceilings", b"measured"))
        self.assertIn("does not hold the ceilings of its machine",
                      self.whisker("study", "roofline", "old.safetensors", code=4).stderr)
        self.assertIn("-o: expected a name ending in .svg",
                      self.whisker("study", "roofline", "mlp", "-o", "r.png", code=2).stderr)

    def test_gradcheck_prints_json_kinks_second_order_and_an_image(self):
        tie = json.loads(self.whisker("study", "gradcheck", "max_pool_tie", "--json").stdout)
        self.assertEqual((tie["schema_version"], tie["passed"], tie["second_order"]), (1, True, False))
        self.assertEqual([kink["index"] for kink in tie["gradients"][0]["kinks"]], [1, 2])
        formula = ("-e", "sum(relu(x) * c)", "x=[0, 1]", "c=const([2, 3])")
        self.assertIn("x: 1 kink, (0): slope 0 to the left, 2 to the right",
                      self.whisker("study", "gradcheck", *formula).stdout)
        drawn = [self.whisker("study", "gradcheck", "-e", "sum(x * x)", *words, "x=randn(2)")
                 for words in ([], ["seed=0"], ["seed=3"])]
        self.assertEqual(drawn[0].stdout, drawn[1].stdout)
        self.assertNotEqual(drawn[0].stdout, drawn[2].stdout)
        self.assertIn("random numbers are those of seed=0; seed=N decides otherwise", drawn[0].stderr)
        twice = self.whisker("study", "gradcheck", "tanh", "--second-order", "-o", "twice.svg").stdout
        self.assertIn("all 2 gradients of gradients agree", twice)
        self.assertIn("error of the finite difference", (self.folder / "twice.svg").read_text())
        every = self.whisker("study", "gradcheck", "all", "--second-order").stdout
        self.assertLessEqual(max(map(len, every.splitlines())), 100)
        self.assertIn("without gradients of gradients", every)
        preset = self.whisker("study", "gradcheck", "lstm", "--steps=4", "--elements=1")
        self.assertIn("lstm is a preset", preset.stderr)
        self.assertIn("all 6 gradients agree", preset.stdout)
        for says, words in (("got a safetensors file. A network is checked with its weights by", ["w.safetensors"]),
                            ("softmax: gradients of gradients are not available", ["softmax", "--second-order"]),
                            ("are compared in f64 on the reference", ["-e", "sum(x)", "x=[1]", "device=cpu"]),
                            ("an image shows one operator", ["all", "-o", "all.svg"]),
                            ("-o: expected a name ending in .svg", ["tanh", "-o", "t.png"])):
            self.assertIn(says, self.whisker("study", "gradcheck", *words, code=2).stderr)

    def test_gradcheck_alone_lists_what_can_be_checked(self):
        listed = self.whisker("study", "gradcheck").stdout
        operators = [line.split()[0] for line in listed.split("\n\n")[0].splitlines()[2:]]
        for name in ("conv2d", "relu", "batch_norm"):
            self.assertIn(name, operators)
        self.whisker("study", "gradcheck", operators[-1])
        unknown = self.whisker("study", "gradcheck", "qqqqqqqqqqqq", code=2).stderr
        self.assertIn(f"Operators: all, {', '.join(operators)}.", unknown)

    def test_an_exercise_is_graded_and_noted_as_done(self):
        state = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        course = pathlib.Path(__file__).parents[2] / "docs/course"
        missing = self.whisker("study", "grade", "mul", code=2).stderr
        self.assertIn("expected your answer in 'mul.cpp'", missing)
        self.assertIn("exercises/mul/answer.cpp mul.cpp", missing)
        self.assertIn("Did you mean 'relu'?", self.whisker("study", "grade", "relo", code=2).stderr)
        hints = [self.whisker("study", "grade", "mul", f"--hint={i}").stdout for i in (1, 2, 3)]
        self.assertEqual(self.whisker("study", "grade", "mul", "--hint").stdout, hints[0])
        self.assertEqual(len(set(hints)), 3)
        for words in (["--hint", "2"], ["--hint=4"], ["--hint=0"], ["--hint=abc"]):
            self.assertIn("--hint", self.whisker("study", "grade", "mul", *words, code=2).stderr)
        answer = self.folder / "mul.cpp"
        shutil.copy(course / "exercises/mul/answer.cpp", answer)
        self.assertIn("da, db: it is 0 everywhere", self.whisker("study", "grade", "mul", code=1, env=state).stdout)
        self.assertIn("built with g++, which is not on PATH",
                      self.whisker("study", "grade", "mul", code=5, env={**state, "PATH": "/nowhere"}).stderr)
        self.assertRegex(self.whisker("study", "exercises", env=state).stdout, r"\nmul +2 +y = ")
        with open(self.folder / "watched", "w", encoding="utf-8") as watched:
            watching = self.start("study", "grade", "mul", "--watch", env=state, stdout=watched)
        self.wait_for(self.folder / "watched", "waiting for mul.cpp to change")
        shutil.copy(course / "solutions/mul.cpp", answer)
        self.wait_for(self.folder / "watched", "waiting for mul.cpp to change", 2)
        watching.send_signal(signal.SIGINT)
        self.assertIn("mul is noted as done in", watching.communicate()[1])
        self.assertEqual(watching.returncode, 0)
        self.assertIn("mul: right", (self.folder / "watched").read_text())
        self.assertRegex(self.whisker("study", "exercises", env=state).stdout, r"\nmul +2 +done +y = ")

    def test_ctrl_c_while_an_answer_is_graded_leaves_nothing(self):
        temporary = self.folder / "temporary"
        temporary.mkdir()
        (self.folder / "relu.cpp").write_text(
            '#include "course.h"\ntemplate <class T>\nvoid relu_backward(course::View<const T>, '
            "course::View<const T>, course::View<T>) {\n  for (volatile int k = 0; k < 1;) {}\n}\n")
        for file in ("messages", "printed"):  # while it is built, while it runs
            grading = self.start("study", "grade", "relu", env={**os.environ, "TMPDIR": str(temporary)})
            while grading.poll() is None and not list(temporary.glob(f"whisker_grade_*/{file}")):
                time.sleep(0.002)
            grading.send_signal(signal.SIGINT)
            self.assertEqual(grading.communicate()[0], "")
            self.assertEqual((grading.returncode, os.listdir(temporary)), (130, []))

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

    def test_options_of_train_are_keys(self):
        """Each option of the table sets its key, and stands beside no other assignment of it."""
        given = {"--epochs": ("1", "epochs: 1"), "--lr": ("0.02", "lr: 0.02"), "--batch-size": ("4", "batch_size: 4"),
                 "--batch": ("4", "batch_size: 4"), "--imgsz": ("20", "image_size: 20"), "--workers": ("2", "workers: 2"),
                 "--patience": ("3", "patience: 3"), "--name": ("by_option", "name: \"by_option\""),
                 "--device": ("cpu", "device: \"cpu\"")}
        words = [word for option, (value, _) in given.items() if option != "--batch" for word in (option, value)]
        self.whisker("train", "c.yaml", *self.data, *words)
        config = (self.folder / "runs/by_option/config.yaml").read_text()
        for option, (_, line) in given.items():
            self.assertIn(line + "\n", config, option)
        for option, beside in (("--epochs", "train.epochs=3"), ("--lr", "optimizer.lr=0.1"), ("--batch", "train.batch_size=4"),
                               ("--imgsz", "data.image_size=8"), ("--workers", "data={workers: 1}"),
                               ("--patience", "train={early_stopping: {patience: 1}}"), ("--name", "name=x"),
                               ("--device", "device=cpu"), ("--init", "init.from=w.safetensors")):
            done = self.whisker("train", "c.yaml", *self.data, beside, option, "1", code=2)
            self.assertRegex(done.stderr, r"train: --[\w-]+ is [\w.]+ and stands beside '.*': leave one of the two out")
        done = self.whisker("train", "--data", "train", "data.train=val", code=2)
        self.assertIn("--data is data.train and stands beside 'data.train=val'", done.stderr)
        self.assertIn("device: expected auto, cpu", self.whisker("train", "c.yaml", "--device", "gpu", code=2).stderr)
        self.assertIn("train: expected a configuration file, --data DIR", self.whisker("train", "--lr", "1", code=2).stderr)
        done = self.whisker("train", "--data", "train", "--epochs", "1", "--name", "by_data", "--imgsz", "16", "--device", "cpu")
        self.assertIn("epochs: 1\n", (self.folder / "runs/by_data/config.yaml").read_text())
        self.assertIn("--epochs: 1 required TEXT missing", self.whisker("train", "c.yaml", "--epochs", code=2).stderr)
        done = self.whisker("train", "--resume", "runs/by_option", "--lr", "1", code=2)
        self.assertIn("--resume: 'optimizer.lr=1' cannot change", done.stderr)

    def test_unknown_options_name_the_key(self):
        for words, says in ((["--weight-decay", "0.1"], "has a key for it: optimizer.weight_decay=0.1\n"),
                            (["--train.epochs=3"], "has a key for it: train.epochs=3\n"),
                            (["--optimiser.momentum"], "has a key for it: optimizer.momentum=VALUE\n"),
                            (["--learning-rate", "1"], "has a key for it: optimizer.lr=1\n"),
                            (["--level", "words"], "has a key for it: data.text.level=words\n"),
                            (["--epoch", "3"], "Did you mean '--epochs'? Keys of the configuration are"),
                            (["--qqqqqqqqq"], "Keys of the configuration are written as train.epochs=3")):
            done = self.whisker("train", "c.yaml", *words, code=2)
            self.assertIn(says, done.stderr)
            self.assertNotIn("after '--'", done.stderr)
        for words in (["models", "--train.epochs=1"], ["--train.epochs=1", "models"], ["--train.epochs=1"]):
            self.assertIn("--train.epochs=1'", self.whisker(*words, code=2).stderr)
        self.assertIn("data.kind=rows or ", self.whisker("summary", "c.yaml", "--kind", "rows", code=2).stderr)
        self.assertIn("after '--'", self.whisker("classify", self.weights, "--dash.png", code=2).stderr)

    def test_what_other_programs_call_it(self):
        for word, own in (("predict", "classify"), ("val", "evaluate"), ("test", "evaluate")):
            self.assertIn(f"got '{word}'. Did you mean '{own}'?", self.whisker(word, "x", code=2).stderr)
        for target, says in (("train", "Train on its images: whisker train --data train\n"),
                             ("runs/base", "Continue that run: whisker train --resume runs/base."),
                             (self.weights, f"Fine-tune them: whisker train --data DIR --weights {self.weights}\n"),
                             ("net.pth", "Fine-tune them: whisker train --data DIR --weights net.pth\n"),
                             ("net.PTH", "Fine-tune them: whisker train --data DIR --weights net.PTH\n"),
                             ("resnet18", "Train it: whisker train --data DIR --model resnet18\n")):
            self.assertIn(says, self.whisker("train", target, code=2).stderr)

    def test_presets_stand_where_a_configuration_may(self):
        done = self.whisker("summary", "squeezenet1_1", "--json")
        summary = json.loads(done.stdout)
        self.assertEqual((summary["classes"], summary["classes_assumed"], summary["input"][1:]), (1000, True, [224, 224, 3]))
        self.assertEqual(done.stderr, "squeezenet1_1 is a preset: 1000 classes, images of 224 px are assumed; "
                                      "data.image_size=N and --classes N or data.train=DIR decide otherwise\n")
        summary = json.loads(self.whisker("summary", "squeezenet1_1", "data.train=train", "--json").stdout)
        self.assertEqual((summary["classes"], summary["classes_assumed"]), (2, False))
        done = self.whisker("summary", "chollet", "--classes", "7")  # what is given is not assumed
        self.assertIn("classes 7\n", done.stdout)
        self.assertEqual(done.stderr, "chollet is a preset: images of 128 px are assumed; data.image_size=N decides otherwise\n")
        done = self.whisker("summary", "lstm", "data.rows.features=3")
        self.assertIn("\nsequences of up to 64 steps, assumed: nothing at data.train. Give data.train=PATH.\n", done.stdout)
        self.assertIn("lstm", done.stdout)
        self.assertEqual(done.stderr, "lstm is a preset: 2 classes are assumed; --classes N or data.train=DIR decides otherwise\n")
        self.assertEqual(self.whisker("summary", "chollet", "--classes", "7", "data.image_size=64").stderr, "")
        traced = self.whisker("study", "trace", "squeezenet1_1", "--batch", "2", "--classes", "9", "data.image_size=64")
        self.assertIn("squeezenet1_1, (2,64,64,3) f32 on cpu, 9 classes", traced.stdout)
        self.assertEqual(traced.stderr, "")
        speed = json.loads(self.whisker("bench", "squeezenet1_1", "data.image_size=64", "device=cpu", "--inference",
                                        "--batch", "2", "--steps", "2", "--json").stdout)
        self.assertEqual(speed["batch"], 2)
        self.assertIn("bench: lstm is a network for sequences", self.whisker("bench", "lstm", code=2).stderr)

    def test_help_of_every_subcommand(self):
        """At most 80 columns, short names of values, and two examples that the program itself can read."""
        def walk(*command):
            text = self.whisker(*command, "--help").stdout
            with self.subTest(command=command):
                self.assertLessEqual(max(map(len, text.splitlines())), 80)
                self.assertNotRegex(text, r"\b(INT|UINT|FLOAT|POSITIVE|REQUIRED|Excludes|Needs)\b|TEXT:|\[\d")
                values = re.findall(r"(?m)^  (?:-\w, )?--([\w-]+)(?:, --[\w-]+)? TEXT\b", text)
                self.assertLessEqual(set(values), {"text", "prompt"})
                examples = re.findall(r"(?m)^  (.*whisker .*)$", text.partition("\nExamples:\n")[2])
                self.assertEqual(len(examples), 2)
                options = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text.partition("\nExamples:\n")[0]))
                for example in examples:
                    self.assertIn("whisker " + " ".join(command), example)
                    if command and "Subcommands:" not in text:
                        used = set(re.findall(r"(?<= )--?[a-z][\w-]*", example.partition("whisker " + " ".join(command))[2]))
                        self.assertLessEqual(used, options, example)
            for sub in re.findall(r"(?m)^  ([a-z]+) ", text.partition("\nSubcommands:\n")[2].partition("\nExamples:")[0]):
                walk(*command, sub)
        walk()

    def test_study_trace_has_100_columns_or_any_number(self):
        widths = [max(map(len, self.whisker("study", "trace", "c.yaml", *self.data, *words).stdout.splitlines()))
                  for words in ([], ["--wide"])]
        self.assertLessEqual(widths[0], 100)
        self.assertGreater(widths[1], 100)

    def test_tables_wrap_by_columns_on_a_terminal(self):
        for command in (["summary", "resnet18"], ["study", "gradcheck"], ["models"],
                        ["study", "trace", "c.yaml", "--batch", "2"]):
            columns = 80 if command[0] == "study" else 100
            master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            process = self.start(*command, stdout=slave)
            os.close(slave)
            shown = read_all(master).replace("\r\n", "\n").splitlines()
            process.communicate()
            os.close(master)
            with self.subTest(command=command):
                self.assertEqual(process.returncode, 0)
                self.assertLessEqual(max(map(len, shown)), columns)
                self.assertGreater(len(shown), 10)

    def test_dry_run_leaves_nothing(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=dry", "--dry-run")
        self.assertIn("per epoch", done.stdout)
        self.assertFalse((self.folder / "runs/dry").exists())


if __name__ == "__main__":
    unittest.main()
