"""Figures that runs and `evaluate` leave for other programs: metrics.csv, TensorBoard's files, intervals and areas,
calibrated weights. Standard library only, but for TensorBoard's own reader, where Python has it."""

import csv
import io
import json
import math
import shutil
import struct
import unittest

from harness import ProgramTest

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    EventAccumulator = None


class RunFigures(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().train("short", "train.log_every=1", "train.tensorboard=true",
                    "train.histogram_every=4")
        run = cls.folder / "runs/short"
        shutil.copytree(run / "last", cls.folder / "earlier")
        cls().whisker("train", "--resume", "runs/short", "train.epochs=4")
        # As after a kill: two epochs are logged that the checkpoint does not know.
        shutil.rmtree(run / "last")
        shutil.copytree(cls.folder / "earlier", run / "last")
        cls().whisker("train", "--resume", "runs/short", "train.epochs=4")
        cls.run_folder = run

    def runTest(self):
        """Lets setUpClass make an instance."""

    def epochs(self):
        lines = map(json.loads, (self.run_folder / "metrics.jsonl").read_text().splitlines())
        return [line for line in lines if line["kind"] == "epoch"]

    def test_metrics_csv_has_a_row_an_epoch(self):
        rows = list(csv.DictReader(io.StringIO((self.run_folder / "metrics.csv").read_text())))
        self.assertEqual([row["epoch"] for row in rows], ["1", "2", "3", "4"])
        self.assertEqual(list(rows[0]), ["epoch", "step", "learning_rate", "train_loss", "train_accuracy", "val_loss",
                                         "val_accuracy", "val_f1_macro", "best", "seconds"])
        for row, line in zip(rows, self.epochs(), strict=True):
            for column, cell in row.items():
                self.assertEqual(float(cell), float(line[column]), column)

    def test_metrics_csv_of_an_older_run_is_made_from_its_log(self):
        older = self.folder / "runs/older"
        shutil.copytree(self.run_folder, older)
        (older / "metrics.csv").unlink()
        self.whisker("train", "--resume", "runs/older", "train.epochs=5")
        rows = (older / "metrics.csv").read_text().splitlines()
        self.assertEqual(rows[:5], (self.run_folder / "metrics.csv").read_text().splitlines())
        self.assertEqual([row.split(",")[0] for row in rows[1:]], ["1", "2", "3", "4", "5"])

    def test_a_run_goes_on_without_files_that_only_show_it(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=blocked", "train.tensorboard=true")
        run = self.folder / "runs/blocked"
        shutil.rmtree(run / "tensorboard")
        (run / "tensorboard").write_text("in the way")
        (run / "metrics.csv").unlink()
        (run / "metrics.csv").mkdir()
        done = self.whisker("train", "--resume", "runs/blocked", "train.epochs=4")
        self.assertEqual(done.stderr.count("The run goes on without metrics.csv; metrics.jsonl has the same."), 1)
        self.assertEqual(done.stderr.count("The run goes on without TensorBoard's file."), 1)
        self.assertEqual((run / "tensorboard").read_text(), "in the way")

    @unittest.skipIf(EventAccumulator is None, "no package tensorboard (./run-tests installs it into build/python)")
    def test_tensorboard_reads_each_step_once(self):
        events = EventAccumulator(str(self.run_folder / "tensorboard"))
        with self.assertLogs("tensorboard", "WARNING"):  # of the purged events
            events.Reload()
        self.assertEqual(len(list((self.run_folder / "tensorboard").iterdir())), 3)
        scalars = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
        self.assertLessEqual({"loss/train", "loss/val", "lr", "accuracy/train", "accuracy/val", "f1_macro/val"},
                             set(scalars))
        self.assertEqual([one.step for one in scalars["loss/train"]], list(range(1, 21)))
        for number, name in enumerate(("c0/500", "c0/502", "c1/500", "c1/502")):  # of ten, of 16x16 pixels
            image, = events.Images(f"validation/{number}")
            self.assertEqual((image.width, image.height, image.encoded_image_string[:2]), (16, 16, b"\xff\xd8"), name)
        epochs = self.epochs()
        self.assertEqual([one.step for one in scalars["loss/val"]], [line["step"] for line in epochs])
        for one, line in zip(scalars["loss/val"], epochs, strict=True):
            self.assertAlmostEqual(one.value, line["val_loss"], places=5)

    @unittest.skipIf(EventAccumulator is None, "no package tensorboard (./run-tests installs it into build/python)")
    def test_tensorboard_has_the_histograms(self):
        events = EventAccumulator(str(self.run_folder / "tensorboard"), size_guidance={"histograms": 0})
        with self.assertLogs("tensorboard", "WARNING"):
            events.Reload()
        rows = [json.loads(line) for line in (self.run_folder / "histograms.jsonl").read_text().splitlines()]
        first = rows[0]["parameters"][0]
        shown = events.Histograms("weights/" + first["name"])
        self.assertEqual([one.step for one in shown], [row["step"] for row in rows])
        value, weights = shown[0].histogram_value, first["weights"]
        self.assertEqual((value.min, value.max, value.num), (weights["minimum"], weights["maximum"], weights["count"]))
        self.assertAlmostEqual(value.sum_squares, weights["norm"] ** 2, places=9)
        self.assertEqual(list(value.bucket), weights["histogram"])
        self.assertEqual(value.bucket_limit[-1], weights["maximum"])
        layer = rows[0]["layers"][0]["layer"]
        self.assertLessEqual({"gradients/" + first["name"], "activations/" + layer, "activation_gradients/" + layer},
                             set(events.Tags()["histograms"]))

    # --- evaluate --------------------------------------------------------------------------------------------------

    def evaluate(self, *arguments, weights="runs/short/best.safetensors"):
        return json.loads(self.whisker("evaluate", weights, *arguments, "--json").stdout)

    def test_intervals_areas_and_calibration_error(self):
        figures = self.evaluate("val")
        low, high = figures["accuracy_interval"]
        self.assertTrue(0 <= low < figures["accuracy"] <= high <= 1, figures)
        self.assertEqual(figures["scored_class"], "c1")
        self.whisker("evaluate", "runs/short/best.safetensors", "val", "--predictions", "p.csv")
        rows = list(csv.DictReader(io.StringIO((self.folder / "p.csv").read_text())))
        pairs = [(float(row["probability c1"]), row["label"] == "c1") for row in rows]
        wins = sum((a > b) + (a == b) / 2 for a, is_a in pairs if is_a for b, is_b in pairs if not is_b)
        positives = sum(is_c1 for _, is_c1 in pairs)
        self.assertAlmostEqual(figures["roc_auc"], wins / positives / (len(pairs) - positives), places=12)
        first = self.evaluate("val", "--positive-class", "c0")
        self.assertEqual(first["scored_class"], "c0")
        self.assertAlmostEqual(first["roc_auc"], figures["roc_auc"], places=12)
        text = self.whisker("evaluate", "runs/short/best.safetensors", "val").stdout
        self.assertIn(f"95 % interval of the accuracy: {low:.4f} to {high:.4f}; expected calibration error ", text)
        self.assertIn(f"ROC AUC {figures['roc_auc']:.4f}, average precision ", text)
        self.assertIn(", by the probability of c1\n", text)
        self.assertIsNone(self.evaluate("train/c0")["roc_auc"])  # of one class there is none

    def test_the_area_of_each_class_against_the_rest(self):
        rows = [(i % 3, [(i * 7 + 3 * s) % 5 + (s == i % 3) for s in range(2)]) for i in range(40)]
        (self.folder / "three.csv").write_text("".join(f"{'abc'[label]},{x},{y}\n" for label, (x, y) in rows))
        (self.folder / "three.yaml").write_text(
            "device: cpu\ndata: {kind: rows, train: three.csv, val_split: 0.3, rows: {features: 2}}\n"
            "model: [{gru: {units: 4}}, {dense: {units: classes}}]\ntrain: {epochs: 1, batch_size: 8}\n")
        self.whisker("train", "three.yaml", "name=three")
        weights = "runs/three/best.safetensors"
        figures = self.evaluate("three.csv", weights=weights)
        text = self.whisker("evaluate", weights, "three.csv", "--predictions", "three_p.csv", "--report", "three.html").stdout
        rows = list(csv.DictReader(io.StringIO((self.folder / "three_p.csv").read_text())))
        areas, precisions = [], []
        for name in "abc":
            pairs = [(float(row["probability " + name]), row["label"] == name) for row in rows]
            wins = [(a > b) + (a == b) / 2 for a, is_a in pairs if is_a for b, is_b in pairs if not is_b]
            areas.append(sum(wins) / len(wins))
            above = [[is_a for a, is_a in pairs if a >= least] for least in (a for a, is_a in pairs if is_a)]
            precisions.append(sum(sum(those) / len(those) for those in above) / len(above))
        self.assertAlmostEqual(figures["roc_auc_ovr"], sum(areas) / 3, places=12)
        self.assertAlmostEqual(figures["average_precision_ovr"], sum(precisions) / 3, places=12)
        self.assertEqual(figures["roc_auc_ovr_classes"], 3)
        self.assertNotIn("roc_auc", figures)
        said = (f"ach class against the rest: ROC AUC {figures['roc_auc_ovr']:.4f}, average precision "
                f"{figures['average_precision_ovr']:.4f}, means of 3 classes")
        self.assertIn("\ne" + said, text)
        self.assertRegex((self.folder / "three.html").read_text(),
                         r'Weights three/best.safetensors; data three.csv; measured on 20\d\d-\d\d-\d\d '
                         r'\d\d:\d\d:\d\d [+-]\d\d:\d\d\.(.|\n)*>data</th><td class="value">three.csv<(.|\n)*>f1_macro</th><td class="value">0\.\d+<')
        self.assertIn("<p>E" + said, (self.folder / "three.html").read_text())

    # Labels of which every fourth is wrong: some temperature is best.
    def labels(self, name, folder="val"):
        files = sorted((self.folder / folder).rglob("*.png"))
        lines = ["path,label"]
        for number, file in enumerate(files):
            label = file.parent.name if number % 4 else {"c0": "c1", "c1": "c0"}[file.parent.name]
            lines.append(f"{file.relative_to(self.folder)},{label}")
        (self.folder / name).write_text("\n".join(lines) + "\n")
        return ["--csv", name]

    def test_calibrated_weights_are_used_everywhere(self):
        data = self.labels("doubtful.csv", "train")
        weights = self.folder / "runs/short/best.safetensors"
        before = weights.read_bytes()
        plain = self.evaluate(*data)
        fit = json.loads(self.whisker("evaluate", str(weights), *data, "--calibrate", "-o", "new.safetensors",
                                      "--json").stdout)["calibrate"]
        self.assertEqual(weights.read_bytes(), before)
        self.assertLess(fit["loss_after"], fit["loss_before"])
        self.assertAlmostEqual(fit["loss_before"], plain["loss"], places=5)
        self.assertEqual(self.safetensors("new.safetensors")[1], self.safetensors(weights)[1])
        record = json.loads(self.metadata("new.safetensors")["calibration"])
        self.assertEqual((record["temperature"], record["data"], record["examples"]),
                         (fit["temperature"], ["doubtful.csv"], 40))
        self.assertNotIn(str(self.folder), json.dumps(record))

        fitted = self.evaluate(*data, weights="new.safetensors")
        self.assertEqual(fitted["accuracy"], plain["accuracy"])
        self.assertAlmostEqual(fitted["loss"], fit["loss_after"], places=5)
        self.assertAlmostEqual(fitted["expected_calibration_error"], fit["expected_calibration_error_after"], places=5)
        self.assertEqual(fitted["calibration"]["fraction_fitted"], 1)
        other = self.whisker("evaluate", "new.safetensors", "val").stdout
        self.assertIn(f"temperature {fit['temperature']:.4f}, fitted to 40 examples of doubtful.csv\n", other)
        same = self.whisker("evaluate", "new.safetensors", "train").stdout  # by content, whatever the labels
        self.assertIn("; 100 % of these images are among them: their loss and calibration error are too good\n", same)

        def probability(name):
            result = json.loads(self.whisker("classify", name, "val/c0/500.png", "--json", "--top", "2").stdout)
            found = {one["class"]: one["probability"] for one in result["images"][0]["predictions"]}
            return found["c1"]
        cold = probability("new.safetensors")
        logit = math.log(probability(str(weights)) / (1 - probability(str(weights))))
        self.assertAlmostEqual(math.log(cold / (1 - cold)), logit / fit["temperature"], places=4)
        self.whisker("import", "new.safetensors", "-o", "imported.safetensors")
        self.assertEqual(probability("imported.safetensors"), cold)

        done = self.whisker("train", "c.yaml", *self.data, "--init", "new.safetensors", "name=tuned")
        self.assertIn(f"new.safetensors: its temperature of {fit['temperature']:.4f}, fitted to 40 examples of "
                      "doubtful.csv is left out: evaluate --calibrate fits another after training", done.stderr)
        self.assertNotIn("calibration", self.metadata("runs/tuned/best.safetensors"))
        shutil.copytree(self.run_folder, self.folder / "runs/replaced")
        shutil.copy(self.folder / "new.safetensors", self.folder / "runs/replaced/best.safetensors")
        done = self.whisker("train", "--resume", "runs/replaced")
        self.assertIn("best.safetensors: its temperature of ", done.stderr)
        for option, said in ((["--probabilities"], "is part of the probabilities"),
                             ([], "is not part of the logits: --probabilities exports it")):
            done = self.whisker("export", "new.safetensors", "-o", f"{len(option)}.onnx", *option)
            self.assertIn(said, done.stderr)

    def test_calibrate_refuses_what_it_cannot_do(self):
        weights = "runs/short/best.safetensors"
        for arguments, code, said in (
                (["val", "--calibrate"], 2, "--calibrate goes with -o NEW.safetensors"),
                (["val", "--calibrate", "-o", "x.pth"], 2, "expected a name that ends in .safetensors"),
                (["val", "--calibrate", "-o", "x.safetensors", "--tta"], 2, "without --tta"),
                (["val", "--calibrate", "-o", weights], 2, "is an input of this command"),
                (["val", "-o", "x.safetensors"], 2, "--calibrate")):
            with self.subTest(arguments):
                self.assertIn(said, self.whisker("evaluate", weights, *arguments, code=code).stderr)
        self.assertFalse((self.folder / "x.safetensors").exists())

    def test_a_damaged_calibration_is_refused(self):
        content = (self.folder / "runs/short/best.safetensors").read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + size])
        for record, said in (('{"temperature": 0, "data": [], "examples": 1, "contents": []}', "temperature"),
                             ('{"temperature": 2}', "data"), ("[1]", "calibration")):
            header["__metadata__"]["calibration"] = record
            text = json.dumps(header).encode()
            text += b" " * (-len(text) % 8)
            (self.folder / "bad.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size:])
            self.assertIn(said, self.whisker("evaluate", "bad.safetensors", "val", code=4).stderr)


if __name__ == "__main__":
    unittest.main()
