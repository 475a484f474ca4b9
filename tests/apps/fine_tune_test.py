"""Training from a folder and a weights file alone, and what shows a network's mistakes."""

import csv
import json
import re
import unittest

from harness import CONFIG, ProgramTest


class FineTune(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.weights = "runs/base/best.safetensors"
        cls().train("base", "train.epochs=6")

    def runTest(self):
        """Lets setUpClass make an instance."""

    def test_one_command_writes_the_configuration_that_repeats_it(self):
        self.whisker("train", "--data", "train", "--weights", self.weights, "name=one", "train.epochs=12",
                     "unfreeze_at=10", "data.workers=1", "device=cpu")
        run = self.folder / "runs/one"
        log = (run / "log.txt").read_text()
        self.assertIn("a fifth of data.train is the validation split", log)
        self.assertIn("; trained: dense; from epoch 11 on: conv2d to dense", log)
        self.assertIn("epoch 11: trained from here on: conv2d to dense", log)
        self.assertIn("schedule:\n  kind: one_cycle", (run / "config.yaml").read_text())
        self.whisker("train", run / "config.yaml", "name=again")
        lines = []
        for name in ("one", "again"):
            text = (self.folder / "runs" / name / "metrics.jsonl").read_text()
            epochs = [json.loads(line) for line in text.splitlines() if '"kind":"epoch"' in line]
            lines.append([(e["train_loss"], e["val_loss"]) for e in epochs])
        self.assertEqual(len(lines[0]), 12)
        self.assertEqual(lines[0], lines[1])

    def test_a_new_network_and_refusals(self):
        self.whisker("train", "--data", "train", "--model", "keras_small", "name=new", "train.epochs=1",
                     "data.image_size=32", "data.resize_short=36", "device=cpu")
        self.assertIn("batch_size: 8", (self.folder / "runs/new/config.yaml").read_text())  # a quarter of 32 images
        for arguments, text in (
                (["--weights", self.weights], "go with --data DIR"),
                (["c.yaml", "--data", "train"], "with --data there is no configuration file"),
                (["--data", "train", "--resume", "runs/base"], "goes neither with --resume"),
                (["c.yaml", *self.data, "features=cached"], "patterns in freeze beside cached"),
                (["c.yaml", *self.data, "unfreeze_at=2"], "patterns in freeze beside it"),
                (["c.yaml", *self.data, "unfreeze_last=0.5"], "unfreeze_at above 0 beside it")):
            done = self.whisker("train", *arguments, code=2)
            self.assertIn(text, done.stderr)
        done = self.whisker("train", "c.yaml", *self.data, "data.test=nowhere", code=3)
        self.assertIn("data.test: no file or folder 'nowhere'", done.stderr)

    def test_epochs_that_end_before_all_layers_are_trained_are_said(self):
        done = self.whisker("train", "c.yaml", *self.data, "--init", self.weights, "name=short", "freeze=[backbone]",
                            "unfreeze_at=2", "train.epochs=2", "init.new_head=true")
        self.assertIn("unfreeze_at has no effect: it is for train.epochs above unfreeze_at", done.stderr)
        self.assertNotIn("from epoch 3 on", done.stderr)

    def test_the_first_blocks_stay_frozen(self):
        (self.folder / "two.yaml").write_text(CONFIG.replace("    - global_avg_pool2d", """\
    - conv2d: {filters: 8, kernel: 3, activation: relu}
    - batch_norm
    - global_avg_pool2d"""))
        self.whisker("train", "two.yaml", *self.data, "name=from", "train.epochs=1")
        self.whisker("train", "two.yaml", *self.data, "name=last", "init.from=runs/from/best.safetensors",
                     "freeze=[backbone]", "unfreeze_at=1", "unfreeze_last=0.6", "train.epochs=3", "optimizer.lr=0.01")
        self.assertIn("8 parameter tensors are frozen for the first epoch, 4 of them for good; trained: dense; "
                      "from epoch 2 on: conv2d_1 to dense", (self.folder / "runs/last/log.txt").read_text())
        dry = self.whisker("train", "two.yaml", *self.data, "init.from=runs/from/best.safetensors", "freeze=[backbone]",
                           "unfreeze_at=1", "unfreeze_last=0.6", "train.epochs=3", "--dry-run").stdout
        trained = 3 * 3 * 8 * 8 + 8 + 2 * 8 + 8 * 2 + 2
        self.assertRegex(dry, rf"(?m)^model .* parameters, {trained} trained$")
        before, after = (self.safetensors(f"runs/{run}/{file}.safetensors")[1]
                         for run, file in (("from", "best"), ("last", "best")))
        same = {name for name in before if before[name] == after[name]}
        self.assertEqual(same, {"conv2d.weight", "conv2d.bias", *(f"batch_norm.{name}" for name in (
            "weight", "bias", "running_mean", "running_var"))})

    def test_the_head_alone_on_cached_features(self):
        run = self.train("head", "init.from=" + self.weights, "freeze=[backbone]", "features=cached", "data.test=val",
                         "train.epochs=3")
        log = (run / "log.txt").read_text()
        self.assertRegex(log, r"features of 40 images, \(1,14,14,8\) each, computed in ")
        test = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][-1]
        self.assertEqual((test["kind"], test["images"]), ("test", 10))
        measured = json.loads(self.whisker("evaluate", run / "best.safetensors", "val", "--json").stdout)
        self.assertAlmostEqual(measured["loss"], test["loss"], places=6)
        self.assertEqual(measured["accuracy"], test["accuracy"])
        self.assertIn(f"test: images 10  loss {test['loss']:.4f}", log)
        # A finished run is not measured again; on another set it is.
        lines = (run / "metrics.jsonl").read_text()
        self.assertNotIn("test: images", self.whisker("train", "--resume", run).stderr)
        self.assertEqual((run / "metrics.jsonl").read_text(), lines)
        self.assertIn("test: images 40", self.whisker("train", "--resume", run, "data.test=train").stderr)

    def test_training_and_validation_features_share_one_limit(self):
        """40 + 10 images of 6272 bytes: 0.25 MiB holds the features of either set, but not of both."""
        head = ["init.from=" + self.weights, "freeze=[backbone]", "features=cached", "train.epochs=1"]
        self.train("fits", *head, "data.cache_limit_mib=0.31")
        done = self.whisker("train", "c.yaml", *self.data, "name=large", *head, "data.cache_limit_mib=0.25", code=2)
        self.assertIn("take more than their part of data.cache_limit_mib (", done.stderr)

    def test_a_run_stopped_in_either_part_resumes_exactly(self):
        """Frozen on cached features, and after all layers are trained."""
        overrides = ["init.from=" + self.weights, "freeze=[backbone]", "features=cached", "unfreeze_at=20",
                     "train.epochs=60", "optimizer.kind=adamw", "optimizer.layer_decay=0.5", "schedule.kind=one_cycle",
                     "schedule.restart_factor=0.5", "runtime.threads=1"]
        figures = {}
        for name, stop in (("whole", None), ("early", 5), ("late", 25)):
            run = self.folder / "runs" / name
            if stop is None:
                self.train(name, *overrides)
            else:
                process = self.start("train", "c.yaml", *self.data, f"name={name}", *overrides)
                self.wait_for(run / "metrics.jsonl", f'"epoch":{stop},')
                process.terminate()
                process.communicate()
                self.assertEqual(process.returncode, 75)
                self.whisker("train", "--resume", run)
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            figures[name] = [(e["epoch"], e["train_loss"], e["val_loss"]) for e in lines if e["kind"] == "epoch"]
        self.assertEqual(len(figures["whole"]), 60)
        self.assertEqual(figures["early"], figures["whole"])
        self.assertEqual(figures["late"], figures["whole"])

    def test_find_lr_writes_a_curve_and_nothing_else(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=rate", "--find-lr")
        self.assertEqual(done.stdout, "runs/rate/find_lr.svg\n")
        found = re.search(r"optimizer\.lr=(\S+)", done.stderr)
        self.assertTrue(found or "the loss never falls" in done.stderr, done.stderr)
        if found:
            self.assertGreater(float(found.group(1)), 2e-7)  # the noise of the first averages is no fall
        curve = re.search(r'<polyline .* points="(.*)"', (self.folder / "runs/rate/find_lr.svg").read_text()).group(1)
        self.assertGreater(len({point.split(",")[1] for point in curve.split()}), 20)  # not cut off flat
        self.assertEqual([file.name for file in (self.folder / "runs/rate").iterdir()], ["find_lr.svg"])

    def test_find_lr_tries_the_layers_that_are_trained_later_too(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=both", "init.from=" + self.weights,
                            "freeze=[backbone]", "unfreeze_at=2", "features=cached", "train.epochs=4", "--find-lr")
        lines = done.stderr.splitlines()[-2:]
        self.assertRegex(lines[0], "^until unfreeze_at=2: the loss ")
        self.assertRegex(lines[1], "^  from then on: the loss ")
        if all("fastest" in line for line in lines):
            first, later = (float(re.search(r"fastest at ([\d.e-]+)", line)[1]) for line in lines)
            factor = float(re.search(r"schedule\.restart_factor=(\S+)", lines[1])[1])
            self.assertAlmostEqual(factor, later / first, delta=0.1 * factor)
        svg = (self.folder / "runs/both/find_lr.svg").read_text()
        curves = re.findall(r'<polyline .* points="(.*)"', svg)
        self.assertEqual(len(curves), 2)
        self.assertNotEqual(*curves)
        self.assertEqual([file.name for file in (self.folder / "runs/both").iterdir()], ["find_lr.svg"])

    def test_predictions_name_every_image_and_repeat_the_loss(self):
        odd = self.folder / "odd, \"names\""
        (odd / "c0").mkdir(parents=True)
        for image in (self.folder / "val/c0").iterdir():
            (odd / "c0" / f"<{image.name}").write_bytes(image.read_bytes())
        done = self.whisker("evaluate", self.weights, str(odd / "c0"), "--predictions", "p.csv", "--worst", "3",
                            "--report", "w.html", "--json")
        measured = json.loads(done.stdout)
        with open(self.folder / "p.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 5)
        self.assertEqual({row["path"] for row in rows}, {str(p) for p in (odd / "c0").iterdir()})
        self.assertAlmostEqual(sum(float(row["loss"]) for row in rows) / 5, measured["loss"], places=5)
        for row in rows:
            self.assertEqual(row["label"], "c0")
            both = [float(row["probability c0"]), float(row["probability c1"])]
            self.assertAlmostEqual(sum(both), 1, places=5)
            self.assertEqual(row["predicted"], "c0" if both[0] >= both[1] else "c1")
        page = (self.folder / "w.html").read_text()
        worst = sorted(rows, key=lambda row: -float(row["loss"]))[0]
        self.assertIn("The 3 images of the largest loss", page)
        self.assertIn(worst["path"].removeprefix(f"{odd}/c0/").replace("<", "&lt;"), page)
        self.assertNotIn("<0", page)
        self.assertNotIn("<script", page)
        self.assertFalse(re.findall(r'(?:src|href)="(?!data:|#)', page))
        self.assertGreaterEqual(page.count("data:image/jpeg;base64,/9j/"), 6)
        self.assertEqual(page.count("<img"), page.count(" alt="))
        for section in ("Confusion matrix", "Per class", "Reliability of the probabilities", "ROC and precision-recall"):
            self.assertIn(f">{section}</h2>", page)
        self.assertIn("95 % interval", page)
        self.assertNotIn(str(self.folder), page)

    def test_maps_embeddings_mirror_images_and_threshold(self):
        done = self.whisker("classify", self.weights, "val", "--cam", "maps", "--embeddings", "e.csv", "--jsonl",
                            "--threshold", "0.9")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for line in lines:
            self.assertEqual(line["unknown"], line["predictions"][0]["probability"] < 0.9)
        maps = {str(f.relative_to(self.folder / "maps")) for f in (self.folder / "maps").rglob("*.jpg")}
        first = [(line["path"].removeprefix("val/").removesuffix(".png"), line["predictions"][0]) for line in lines]
        self.assertEqual(maps, {f"{path}_{best['class']}_{best['probability']:.4f}.jpg" for path, best in first})
        with open(self.folder / "e.csv", newline="") as file:
            rows = list(csv.reader(file))
        self.assertEqual(rows[0], ["path"] + [str(i) for i in range(8)])
        self.assertEqual([row[0] for row in rows[1:]], [line["path"] for line in lines])
        text = self.whisker("classify", self.weights, "val", "--threshold", "1", "--tta").stdout.splitlines()
        self.assertTrue(all(":  unknown:  c" in line for line in text), text)

    def test_a_mirror_image_has_the_same_average(self):
        """Of an image and its mirror image the average is the same, whichever comes first."""
        from harness import png
        for name, mirror in (("left", False), ("right", True)):
            pixel = lambda x, y: [(15 - x if mirror else x) * 16, y * 9, 100]
            (self.folder / f"{name}.png").write_bytes(png(16, 16, pixel))
        done = self.whisker("classify", self.weights, "left.png", "right.png", "--jsonl", "--tta")
        both = [json.loads(line)["predictions"][0] for line in done.stdout.splitlines()]
        self.assertEqual(both[0]["class"], both[1]["class"])
        self.assertAlmostEqual(both[0]["probability"], both[1]["probability"], places=6)


if __name__ == "__main__":
    unittest.main()
