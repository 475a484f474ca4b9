"""`whisker evaluate`: what it takes, what it passes over, and that it repeats the training's figures."""

import json
import os
import pathlib
import shutil
import stat
import unittest

from harness import CONFIG, ProgramTest, stripes, write_classes

DATA = pathlib.Path(os.environ.get("WHISKER_DATA", pathlib.Path(__file__).parents[3] / "shared/data"))


class Evaluate(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.weights = "runs/base/best.safetensors"
        cls().train("base", "train.epochs=4")
        (cls.folder / "flat").mkdir()
        rows = ["path,label"]
        for label in range(2):
            for picture in sorted((cls.folder / f"val/c{label}").iterdir()):
                shutil.copy(picture, cls.folder / "flat" / f"c{label}.{picture.name}")
                rows.append(f"c{label}.{picture.name},c{label}")
        (cls.folder / "flat/labels.csv").write_text("\n".join(rows) + "\n")

    def runTest(self):
        """Lets setUpClass make an instance."""

    def test_an_imagenet_model_names_breeds(self):
        """torchvision's SqueezeNet on photographs: 151 to 268 are ImageNet's dogs, 281 to 285 its cats."""
        weights = DATA / "weights/squeezenet1_1_imagenet.safetensors"
        photos = {kind: sorted((DATA / "cats_dogs_original" / kind).glob("*.jpg"))[:20] for kind in ("cat", "dog")}
        if not weights.exists() or len(photos["dog"]) < 20:
            self.skipTest(f"no ImageNet weights or photographs in {DATA}")
        classes = json.loads(self.metadata(weights)["classes"])
        breeds = {"cat": classes[281:286], "dog": classes[151:269]}
        self.assertEqual((breeds["cat"][0], breeds["dog"][0]), ("tabby", "Chihuahua"))
        for kind, least in (("cat", 14), ("dog", 17)):
            lines = self.whisker("classify", weights, *photos[kind], "--jsonl").stdout.splitlines()
            named = [json.loads(line)["predictions"][0]["class"] for line in lines]
            right = sum(name in breeds[kind] for name in named)
            print(f"{kind} breeds named: {right} of {len(photos[kind])}")
            self.assertGreaterEqual(right, least, named)

    def measured(self, *arguments, code=0, **options):
        done = self.whisker("evaluate", self.weights, *arguments, "--json", code=code, **options)
        return json.loads(done.stdout)

    def test_every_way_to_name_the_pictures_gives_the_same(self):
        whole = self.measured("val")
        self.assertEqual(whole["schema_version"], 1)
        self.assertEqual(whole["pictures"], 10)
        self.assertEqual(whole["unreadable"], [])
        self.assertEqual([sum(row) for row in whole["confusion"]], [5, 5])
        self.assertEqual([c["name"] for c in whole["per_class"]], ["c0", "c1"])
        files = [str(f.relative_to(self.folder)) for f in sorted((self.folder / "val").glob("*/*.png"))]
        self.assertEqual(self.measured("val/c0", "val/c1"), whole)
        self.assertEqual(self.measured(*files), whole)
        self.assertEqual(self.measured("-", input="".join(f"{f}\n" for f in files)), whole)
        self.assertEqual(self.measured("-", input="val/c0\nval/c1\n"), whole)
        self.assertEqual(self.measured("val", files[3]), whole, "a picture named twice counts once")
        self.assertEqual(self.measured("flat", "--label-pattern", "{label}.*.png"), whole)
        self.assertEqual(self.measured("--csv", "flat/labels.csv"), whole)
        shutil.copy(self.folder / "flat/labels.csv", self.folder / "labels.csv")
        self.assertEqual(self.measured("flat", "--csv", "labels.csv"), whole)
        self.assertIn("confusion matrix", self.whisker("evaluate", self.weights, "val").stdout)

    def test_goes_on_past_what_cannot_be_read(self):
        whole = self.measured("val")
        write_classes(self.folder / "some", 1, 500)
        (self.folder / "some/c1/cut.png").write_bytes(stripes(1, 1)[:60])
        done = self.whisker("evaluate", self.weights, "val", "some", "gone.png", "--json", code=3)
        self.assertIn("some/c1/cut.png: ", done.stderr)
        self.assertIn("gone.png: No such file", done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["pictures"], 12)
        self.assertEqual([f["path"] for f in found["unreadable"]], ["gone.png", "some/c1/cut.png"])
        self.assertFalse(any(f["error"].startswith(f["path"]) for f in found["unreadable"]))
        text = self.whisker("evaluate", self.weights, "val", "gone.png", code=3).stdout
        self.assertIn("unreadable 1", text)
        listed = (self.folder / "flat/labels.csv").read_text()
        (self.folder / "flat/more.csv").write_text(listed + "gone.png,c1\n")
        again = self.measured("--csv", "flat/more.csv", code=3)
        self.assertEqual(again.pop("unreadable")[0]["path"], "flat/gone.png")
        whole.pop("unreadable")
        self.assertEqual(again, whole)

    @unittest.skipUnless(os.geteuid() == 0, "needs a second user to be forbidden something")
    def test_folders_that_may_not_be_read(self):
        for path in [self.folder, *self.folder.rglob("*")]:
            path.chmod(path.stat().st_mode | stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0))
        write_classes(self.folder / "shut", 2)
        (self.folder / "shut/c1").chmod(0)
        other = {"user": 65534, "group": 65534, "env": {**os.environ, "XDG_CACHE_HOME": "/nonexistent"}}
        done = self.whisker("evaluate", self.weights, "shut", "--json", code=3, **other)
        self.assertIn("shut/c1: Permission denied", done.stderr)
        self.assertEqual(json.loads(done.stdout)["pictures"], 2)
        done = self.whisker("classify", self.weights, "shut", code=3, **other)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn("shut/c1", done.stderr)

    def test_wrong_inputs_say_what_to_do(self):
        def refused(code, says, *arguments, **options):
            done = self.whisker("evaluate", self.weights, *arguments, code=code, **options)
            self.assertEqual(done.stdout, "")
            self.assertIn(says, done.stderr)
        refused(2, "expected pictures to measure on")
        refused(2, "at most one folder", "val", "train", "--csv", "flat/labels.csv")
        refused(2, "--label-pattern", "val", "--csv", "flat/labels.csv", "--label-pattern", "{label}.*")
        refused(3, "--label-pattern '{label}.*'", "flat/c0.500.png")
        refused(3, "--label-pattern", "flat")
        refused(3, "No such file", "nowhere")
        refused(3, "no pictures found", "-", input="")
        refused(3, "none.csv", "--csv", "none.csv")
        write_classes(self.folder / "extra", 1)
        (self.folder / "extra/c7").mkdir()
        (self.folder / "extra/c7/1.png").write_bytes(stripes(0, 1))
        refused(3, "the classes 'c7'", "extra")

    def test_sequences_with_several_values_per_step(self):
        self.whisker("data", "generate", "waves", "--waves", "--per-class", "40", "--val-per-class", "10")
        config = pathlib.Path(__file__).parents[2] / "configs/keras_simple_rnn.yaml"
        stats = json.loads(self.whisker("data", "stats", config, "data.train=waves/val.csv", "data.val=",
                                        "data.val_split=0.5", "--json").stdout)
        self.assertEqual(sum(stats["classes"].values()), 10)
        self.whisker("data", "check", config)
        refused = self.whisker("data", "check", "val", "data.val=waves", code=2)
        self.assertIn("overrides go with a YAML file", refused.stderr)
        self.whisker("train", config, "device=cpu", "train.epochs=1", "name=waves")
        rows = (self.folder / "waves/val.csv").read_text().splitlines()[:2]
        (self.folder / "unlabelled.csv").write_text("".join(row.split(",", 1)[1] + "\n" for row in rows))
        (self.folder / "labelled.csv").write_text("\n".join(rows) + "\n")
        found = [self.whisker("classify", "runs/waves/best.safetensors", name, "--jsonl").stdout.splitlines()
                 for name in ("unlabelled.csv", "labelled.csv")]
        self.assertEqual(*[[json.loads(line)["predictions"] for line in lines] for lines in found])

    def test_repeats_the_figures_in_the_weights_file(self):
        # Smoothing and class weights belong to what is learned from, not to what is reported.
        (self.folder / "odd.yaml").write_text(CONFIG)
        write_classes(self.folder / "uneven", 12)
        for i in range(4, 12):
            (self.folder / "uneven/c1" / f"{i:03}.png").unlink()
        self.whisker("train", "odd.yaml", "data.train=uneven", "data.val=val", "name=odd",
                     "loss.label_smoothing=0.2", "loss.class_weights=balanced", "train.metric=loss",
                     "ema.decay=0.5", "train.epochs=3")
        stored = json.loads(self.metadata("runs/odd/best.safetensors")["metrics"])
        epochs = [json.loads(line) for line in (self.folder / "runs/odd/metrics.jsonl").read_text().splitlines()]
        best = [e for e in epochs if e["kind"] == "epoch" and e["best"]][-1]
        self.assertEqual((best["val_loss"], best["val_accuracy"]), (stored["loss"], stored["accuracy"]))
        done = self.whisker("evaluate", "runs/odd/best.safetensors", "val", "--json", "--batch-size", "8")
        found = json.loads(done.stdout)
        for key in stored:
            self.assertEqual(found[key], stored[key], key)
        # Other batches only round otherwise.
        other = json.loads(self.whisker("evaluate", "runs/odd/best.safetensors", "val", "--json").stdout)
        self.assertAlmostEqual(other["loss"], stored["loss"], places=6)
        # Control: the loss that is trained on is another number.
        self.assertNotAlmostEqual(stored["loss"], best["train_loss"], places=3)


if __name__ == "__main__":
    unittest.main()
