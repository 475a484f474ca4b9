"""`whisker evaluate`: what it accepts, what it skips, and that it repeats the training's figures."""

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
            for image in sorted((cls.folder / f"val/c{label}").iterdir()):
                shutil.copy(image, cls.folder / "flat" / f"c{label}.{image.name}")
                rows.append(f"c{label}.{image.name},c{label}")
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

    def test_names_that_replace_the_stored_ones(self):
        for names, code, says in (("c1\nc0\n", 2, "got its own in another order: class 1 is 'c0', not 'c1'"),
                                  ("\ufeffc0\r\nc2\r\n", 0, "--classes renames its classes, such as 'c1' to 'c2'"),
                                  ("x\nc1\n", 0, "--classes renames its classes, such as 'c0' to 'x'"),
                                  ("x\nx\n", 2, "--classes: expected every name once, got 'x' again")):
            (self.folder / "names.txt").write_text(names)
            done = self.whisker("classify", self.weights, "val/c0", "--classes", "names.txt", code=code)
            self.assertIn(says, done.stderr)

    def measured(self, *arguments, code=0, **options):
        done = self.whisker("evaluate", self.weights, *arguments, "--json", code=code, **options)
        return json.loads(done.stdout)

    def test_every_way_to_name_the_images_gives_the_same(self):
        whole = self.measured("val")
        self.assertEqual(whole["schema_version"], 3)
        self.assertEqual(whole["images"], 10)
        self.assertEqual(whole["unreadable"], [])
        self.assertEqual([sum(row) for row in whole["confusion"]], [5, 5])
        self.assertEqual([c["name"] for c in whole["per_class"]], ["c0", "c1"])
        files = [str(f.relative_to(self.folder)) for f in sorted((self.folder / "val").glob("*/*.png"))]
        self.assertEqual(self.measured("val/c0", "val/c1"), whole)
        self.assertEqual(self.measured(*files), whole)
        self.assertEqual(self.measured("-", input="".join(f"{f}\n" for f in files)), whole)
        self.assertEqual(self.measured("-", input="val/c0\nval/c1\n"), whole)
        self.assertEqual(self.measured("val", files[3]), whole, "an image named twice counts once")
        self.assertEqual(self.measured("flat", "--label-pattern", "{label}.*.png"), whole)
        self.assertEqual(self.measured("--csv", "flat/labels.csv"), whole)
        shutil.copy(self.folder / "flat/labels.csv", self.folder / "labels.csv")
        self.assertEqual(self.measured("flat", "--csv", "labels.csv"), whole)
        self.assertIn("confusion matrix", self.whisker("evaluate", self.weights, "val").stdout)

    def test_an_f1_is_named(self):
        whole = self.measured("val")
        each = {c["name"]: c["f1"] for c in whole["per_class"]}
        self.assertAlmostEqual(whole["f1_macro"], sum(each.values()) / 2)
        self.assertNotIn("f1_class", whole)
        line = self.whisker("evaluate", self.weights, "val").stdout.splitlines()[0]
        for text in (f"f1_macro {whole['f1_macro']:.4f}", f"f1_class(c0) {each['c0']:.4f}",
                     f"f1_class(c1) {each['c1']:.4f}"):
            self.assertIn(text, line)
        one = self.measured("val", "--positive-class", "c0")
        self.assertEqual((one["f1_class"], one["positive_class"]), (each["c0"], "c0"))
        absent = self.measured("val/c0", "--positive-class", "c1")
        self.assertIsNone(absent["f1_class"])
        self.assertIsNone(absent["per_class"][1]["recall"])
        self.assertIn("f1_class(c1) not measured", self.whisker("evaluate", self.weights, "val/c0").stdout)
        done = self.whisker("evaluate", self.weights, "val", "--positive-class", "c2", code=2)
        self.assertIn("--positive-class: expected one of 'c0', 'c1', got 'c2'", done.stderr)

    def test_goes_on_past_what_cannot_be_read(self):
        whole = self.measured("val")
        write_classes(self.folder / "some", 1, 500)
        (self.folder / "some/c1/cut.png").write_bytes(stripes(1, 1)[:60])
        done = self.whisker("evaluate", self.weights, "val", "some", "gone.png", "--json", code=3)
        self.assertIn("some/c1/cut.png: ", done.stderr)
        self.assertIn("gone.png: No such file", done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["images"], 12)
        self.assertEqual([f["path"] for f in found["unreadable"]], ["gone.png", "some/c1/cut.png"])
        self.assertFalse(any(f["error"].startswith(f["path"]) for f in found["unreadable"]))
        self.whisker("evaluate", self.weights, "some", "val", "--predictions", "read.csv", code=3)
        rows = [row.split(",") for row in (self.folder / "read.csv").read_text().splitlines()[1:]]
        self.assertEqual(len(rows), 12)
        for path, label, *_ in rows:  # the one that is skipped moves no path to another row
            self.assertEqual(path.split("/")[-2], label)
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
        self.assertEqual(json.loads(done.stdout)["images"], 2)
        done = self.whisker("classify", self.weights, "shut", code=3, **other)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertIn("shut/c1", done.stderr)

    def test_wrong_inputs_say_what_to_do(self):
        def refused(code, says, *arguments, **options):
            done = self.whisker("evaluate", self.weights, *arguments, code=code, **options)
            self.assertEqual(done.stdout, "")
            self.assertIn(says, done.stderr)
        refused(2, "expected images to measure on")
        refused(2, "at most one folder", "val", "train", "--csv", "flat/labels.csv")
        refused(2, "--label-pattern", "val", "--csv", "flat/labels.csv", "--label-pattern", "{label}.*")
        refused(3, "--label-pattern '{label}.*'", "flat/c0.500.png")
        refused(3, "--label-pattern", "flat")
        refused(3, "No such file", "nowhere")
        refused(3, "no images found", "-", input="")
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

    def test_the_validation_split_of_the_run(self):
        """--split val finds the images of the run again, wherever it runs and they lie."""
        write_classes(self.folder / "whole", 20)
        done = self.whisker("train", "c.yaml", "data.train=whole", "name=split", "train.epochs=2")
        self.assertIn("a fifth of data.train is the validation split", done.stderr)
        self.assertIn("32 training and 8 validation", done.stderr)
        best = "runs/split/best.safetensors"
        stored = json.loads(self.metadata(best)["metrics"])

        def figures(*arguments, code=0, **options):
            done = self.whisker("evaluate", *arguments, "--json", "--batch-size", "8", code=code, **options)
            return json.loads(done.stdout), done.stderr

        split, stderr = figures(best, "--split", "val")
        self.assertEqual((split["images"], stderr), (8, ""))
        for key in stored:
            self.assertEqual(split[key], stored[key], key)
        seen, stderr = figures(best, "whole")
        self.assertEqual((seen["images"], seen["trained_on"]), (40, 32))
        self.assertIn("32 of these 40 images trained the weights (runs/split/split.csv)", stderr)
        again = self.whisker("train", "c.yaml", "data.train=whole", "name=seen", "seed=7", "train.epochs=1",
                             "--init", best).stderr
        self.assertRegex(again, r"warning: \d+ of the 8 validation images trained the weights of init\.from")
        self.assertIn("of the 8 validation images trained", (self.folder / "runs/seen/log.txt").read_text())
        self.assertIn("--split val", stderr)
        self.assertEqual(self.whisker("-q", "evaluate", best, "whole").stderr, "")
        new, stderr = figures(best, "val")
        self.assertEqual((new["trained_on"], stderr), (0, ""))
        trained, _ = figures(best, "--split", "train")
        self.assertEqual(trained["images"], 32)
        # Images that came later are of no split; those that moved are named.
        write_classes(self.folder / "whole", 10, 100)
        self.assertEqual(figures(best, "--split", "val")[0], split)
        (self.folder / "whole").rename(self.folder / "moved")
        lost = self.whisker("evaluate", best, "--split", "val", code=3)
        self.assertIn("none of the 8 images of runs/split/split.csv is in whole", lost.stderr)
        self.assertEqual(figures(best, "moved", "--split", "val")[0], split)
        self.assertEqual(figures(best, "moved")[0]["trained_on"], 32)
        next((self.folder / "moved").glob("c0/*.png")).unlink()
        one_gone = self.whisker("evaluate", best, "moved", "--split", "train", "--json", code=None)
        other = self.whisker("evaluate", best, "moved", "--split", "val", "--json", code=None)
        self.assertEqual(sorted([one_gone.returncode, other.returncode]), [0, 3])
        # Elsewhere nothing is known.
        shutil.copy(self.folder / best, self.folder / "copy.safetensors")
        alone = self.whisker("evaluate", "copy.safetensors", "--split", "val", code=4)
        self.assertIn("weights in the run folder that trained them", alone.stderr)
        self.assertNotIn("trained_on", figures("copy.safetensors", "val")[0])
        (self.folder / "runs/split/split.csv").write_text("path,label,split,bytes\nc0/1.png,c7,val,9\n")
        self.assertIn("'c7' is not a class", self.whisker("evaluate", best, "--split", "val", code=4).stderr)
        (self.folder / "runs/split/split.csv").unlink()
        self.assertIn("no runs/split/split.csv", self.whisker("evaluate", best, "--split", "val", code=4).stderr)

    def test_other_training_data_bring_their_own_validation(self):
        """data.train=DIR alone: the file's data.val belongs to the file's data.train."""
        (self.folder / "own.yaml").write_text(CONFIG.replace("data: {", "data: {train: gone/train, val: gone/val, "))
        write_classes(self.folder / "mine", 10)
        done = self.whisker("train", "own.yaml", "data.train=mine", "name=own", "train.epochs=1")
        self.assertIn("16 training and 4 validation", done.stderr)
        printed = self.whisker("config", "print", "runs/own/config.yaml").stdout
        self.assertIn("val_split: 0.2", printed)
        write_classes(self.folder / "parted/train", 10)
        write_classes(self.folder / "parted/val", 3, 50)
        done = self.whisker("train", "own.yaml", "data.train=parted", "name=parted", "train.epochs=1")
        self.assertIn("20 training and 6 validation", done.stderr)
        self.assertIn("data.val is parted/val", done.stderr)
        # A resumed run's data may move one without the other.
        (self.folder / "parted/train").rename(self.folder / "elsewhere")
        self.whisker("train", "--resume", "runs/parted", "data.train=elsewhere", "train.epochs=2")
        refused = self.whisker("train", "own.yaml", "data.train=mine", "data.val=gone/val", code=3)
        self.assertIn("data.val", refused.stderr)

    def test_text_files_in_class_folders(self):
        """The layout of IMDB's archive: trained on, measured, checked."""
        for i in range(20):
            for label, word in (("pos", "good"), ("neg", "bad")):
                file = self.folder / f"reviews/{label}/{i}.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{word} film number {i}\n")
        config = pathlib.Path(__file__).parents[2] / "configs/imdb_lstm.yaml"
        done = self.whisker("train", config, "device=cpu", "data.train=reviews", "data.text.min_count=1",
                            "train.epochs=6", "train.batch_size=4", "name=reviews")
        self.assertIn("36 training and 4 validation", done.stderr)
        best = "runs/reviews/best.safetensors"
        done = self.whisker("evaluate", best, "reviews", "--json")
        whole = json.loads(done.stdout)
        self.assertEqual((whole["texts"], whole["trained_on"]), (40, 36))
        self.assertIn("36 of these 40 texts trained the weights (reviews): the metrics do not apply", done.stderr)
        self.assertEqual(self.whisker("-q", "evaluate", best, "reviews").stderr, "")
        self.assertGreaterEqual(whole["accuracy"], 0.9)
        stored = json.loads(self.metadata(best)["metrics"])
        split = json.loads(self.whisker("evaluate", best, "--split", "val", "--json", "--batch-size", "4").stdout)
        self.assertEqual((split["texts"], split["loss"]), (4, stored["loss"]))
        shutil.copytree(self.folder / "reviews", self.folder / "test")
        (self.folder / "test/pos/empty.txt").write_text("\n")
        tested = self.whisker("train", "--resume", "runs/reviews", "data.test=test").stderr
        self.assertIn("data.test: skipped: test/pos/empty.txt: the text is empty", tested)
        self.assertIn("test: examples 40 ", tested)
        self.assertIn("warning: 36 of the 40 test texts are training texts, too, such as test/neg/", tested)
        self.assertIn("warning: 4 of the 40 test texts are validation texts, too, such as test/", tested)
        checked = self.whisker("data", "check", "reviews").stdout
        self.assertIn("32 training and 8 validation texts in 2 classes", checked)
        (self.folder / "reviews/urls.txt").write_text("beside\n")
        beside = self.whisker("data", "check", "reviews").stdout
        self.assertIn("data.train: 40 of 41 files used: 1 not in a class folder", beside)
        (self.folder / "reviews/pos/empty.txt").write_text("\n")
        bad = self.whisker("data", "check", "reviews", code=3)
        self.assertIn("skipped: reviews/pos/empty.txt: the text is empty", bad.stdout)
        done = self.whisker("evaluate", best, "reviews", "--json", code=3)
        self.assertEqual(json.loads(done.stdout)["unreadable"][0]["path"], "reviews/pos/empty.txt")
        self.whisker("data", "check", "reviews", "--val", "reviews", "--json", code=3)
        stats = json.loads(self.whisker("data", "stats", "reviews", "--json").stdout)
        self.assertEqual(sum(stats["classes"].values()), 32)
        refused = self.whisker("evaluate", best, "reviews/pos", code=3)
        self.assertIn("class folders with a file per text", refused.stderr)
        # Other words than those of the training: the split is not what it was.
        for i in range(20):
            (self.folder / f"reviews/pos/{i}.txt").write_text(f"other words {i}")
        changed = self.whisker("evaluate", best, "--split", "val", code=3)
        self.assertIn("reviews changed since the weights were trained", changed.stderr)

    def test_fine_tuning_follows_the_preprocessing_of_the_weights(self):
        self.train("caffe", "train.epochs=1", "data.image_size=12", "data.resize_short=14", "data.std=[0.004]")
        (self.folder / "tune.yaml").write_text(CONFIG.replace("image_size: 16, ", ""))
        weights = self.folder / "runs/caffe/best.safetensors"
        done = self.whisker("train", "tune.yaml", *self.data, "name=tuned", "--init", weights, "train.epochs=1")
        self.assertIn("preprocessing of best.safetensors: data.image_size=12, data.resize_short=14, "
                      "data.std=[0.004]", done.stderr)
        self.assertEqual(self.metadata("runs/tuned/best.safetensors")["preprocess"],
                         self.metadata(weights)["preprocess"])
        again = self.whisker("train", "runs/tuned/config.yaml", "name=again")
        self.assertNotIn("warning", again.stderr)
        self.assertEqual(self.metadata("runs/again/best.safetensors")["metrics"],
                         self.metadata("runs/tuned/best.safetensors")["metrics"])
        done = self.whisker("train", "tune.yaml", *self.data, "name=kept", "--init", weights, "train.epochs=1",
                            "data.std=[0.229]")
        self.assertIn("warning: data.std is [0.229] in the configuration, [0.004] in best.safetensors", done.stderr)
        self.assertIn('"std":[0.229,', self.metadata("runs/kept/best.safetensors")["preprocess"])
        summary = self.whisker("summary", "tune.yaml", f"init.from={weights}").stdout
        self.assertIn("(8,12,12,3)", summary.replace(" ", ""))

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

    def test_in_the_precision_of_the_validation(self):
        run = self.train("narrow", "precision=bf16", "train.epochs=1", "data.test=val")
        best = "runs/narrow/best.safetensors"
        stored = json.loads(self.metadata(best)["metrics"])
        self.assertEqual(stored["precision"], "bf16")
        test = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
        self.assertEqual((test["kind"], test["loss"]), ("test", stored["loss"]))
        done = self.whisker("evaluate", best, "val", "--json", "--batch-size", "8", "--device", "cpu")
        self.assertIn(best + ": evaluated in bf16, as its validation was: --precision f32 computes in f32", done.stderr)
        found = json.loads(done.stdout)
        for key in stored:
            self.assertEqual(found[key], stored[key], key)
        wide = self.whisker("evaluate", best, "val", "--json", "--device", "cpu", "--precision", "f32")
        self.assertEqual(wide.stderr, "")
        self.assertEqual(json.loads(wide.stdout)["precision"], "f32")
        self.assertNotEqual(json.loads(wide.stdout)["loss"], stored["loss"])
        other = self.whisker("evaluate", best, "val", "--device", "reference").stderr
        self.assertIn(f"its validation in bf16 gave loss {stored['loss']:.4f} accuracy {stored['accuracy']:.4f}", other)
        self.assertIn("reference does not compute in bf16, and evaluates in f32", other)

    def test_in_another_precision(self):
        images = sorted(str(path) for path in (self.folder / "val").rglob("*.png"))

        def probabilities(precision):
            lines = self.whisker("classify", self.weights, *images, "--jsonl", "--top", "2", "--precision", precision)
            return [{one["class"]: one["probability"] for one in json.loads(line)["predictions"]}
                    for line in lines.stdout.splitlines()]

        exact, narrow = probabilities("f32"), probabilities("bf16")
        self.assertEqual(len(exact), len(images))
        self.assertNotEqual(exact, narrow)
        for one, other in zip(exact, narrow):
            for name in one:
                self.assertAlmostEqual(one[name], other[name], delta=0.02)
        loss, narrow_loss = self.measured("val")["loss"], self.measured("val", "--precision", "bf16")["loss"]
        self.assertNotEqual(loss, narrow_loss)
        self.assertAlmostEqual(loss, narrow_loss, delta=0.02)
        for command in ("classify", "evaluate"):
            done = self.whisker(command, self.weights, "val", "--device", "cpu", "--precision", "f16", code=2)
            self.assertIn("precision: cpu only stores and converts f16", done.stderr)
            self.assertIn("Use precision: bf16 or f32.", done.stderr)
            done = self.whisker(command, self.weights, "val", "--precision", "half", code=2)
            self.assertIn("--precision: half not in {auto,bf16,f16,f32}", done.stderr)


if __name__ == "__main__":
    unittest.main()
