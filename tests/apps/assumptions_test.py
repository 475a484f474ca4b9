"""Settings and files that act as they say, but are hardly meant so: each is one line, or refused with what to do."""

import os
import unittest

from harness import CONFIG, ProgramTest, png


class Assumptions(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().train("base", "train.epochs=1")
        cls.weights = "runs/base/best.safetensors"

    def runTest(self):
        """Lets setUpClass make an instance."""

    def refused(self, code, says, *arguments, **options):
        done = self.whisker(*arguments, code=code, **options)
        self.assertIn(says, done.stderr)

    def said(self, *arguments):
        return self.whisker(*arguments).stderr

    def train_says(self, *overrides):
        return self.said("train", "c.yaml", *self.data, "train.epochs=1", *overrides)

    def test_values_in_place_of_stored_ones_are_said(self):
        for command in (["classify", self.weights, "val"], ["evaluate", self.weights, "val"]):
            said = self.said(*command, "--input", "mean=[123, 116, 103]", "--input", "image_size=20")
            self.assertIn("--input image_size=20 (was 16), mean=[123, 116, 103] (was [0, 0, 0])", said)
            self.assertIn("--input: mean [123, 116, 103] and std [1, 1, 1] do not fit pixels of 0 to 1", said)
            self.assertNotIn("--input", self.said(*command, "--input", "image_size=16"))
        self.assertIn("data.mean [124] and data.std [58] do not fit",
                      self.train_says("data.channels=1", "data.mean=[124]", "data.std=[58]"))

    def test_paths_that_no_shell_has_expanded_are_refused(self):
        home = str(self.folder)
        env = {**os.environ, "HOME": home}
        for path, meant in (("~/x", f"{home}/x"), ("$HOME/x", f"{home}/x"), ("${HOME}", home),
                            ("$NONE_SUCH/x", "the whole path")):
            first = path.split("/")[0]
            for key in ("runs", "data.train", "data.val", "data.test", "data.csv", "data.cache_file", "init.from"):
                self.refused(2, f"{key}: expected a path, got '{path}'. No shell has expanded {first}: write {meant}, "
                                f"or ./{path} for a folder", "train", "c.yaml", *self.data, f"{key}={path}", env=env)
        (self.folder / "home.yaml").write_text(CONFIG + "runs: ~/runs\n")
        self.refused(2, "home.yaml:12:7: runs: expected a path, got '~/runs'", "train", "home.yaml", *self.data,
                     env=env)
        for output in (["classify", self.weights, "val", "--cam=~/x"], ["export", self.weights, "--output=~/x.onnx"],
                       ["evaluate", self.weights, "val", "--worst=1", "--out=~/x.html"],
                       ["import", self.weights, "--output=$HOME/x"], ["data", "generate", "~/x"]):
            self.refused(2, f"write {home}/x", *output, env=env)
        self.assertEqual([p for p in os.listdir(self.folder) if p[0] in "~$"], [])

    def test_a_crop_of_wide_images_is_said(self):
        for label in range(2):
            (self.folder / f"wide/c{label}").mkdir(parents=True)
            for i in range(4):
                width = 64 if i < 3 else 16
                (self.folder / f"wide/c{label}/{i}.png").write_bytes(png(width, 16, lambda x, y: (x, y + label, i)))
        says = ("data.resize_mode: crop leaves out more than a third of 6 of 8 images, and 75 % of the median one; "
                "squash and letterbox show the network whole images")
        train = ["train", "c.yaml", "data.train=wide", "data.val=wide", "train.epochs=1"]
        self.assertIn(says, self.said(*train))
        self.assertNotIn("leaves out", self.said(*train, "data.resize_mode=squash"))
        for label in range(2):
            (self.folder / f"photos/c{label}").mkdir(parents=True)
            for i in range(2):
                image = png(24, 16, lambda x, y: (x, y + label, i))
                (self.folder / f"photos/c{label}/{i}.png").write_bytes(image)
        self.assertNotIn("leaves out", self.whisker("data", "check", "photos").stdout)
        for command in ("check", "stats"):
            self.assertIn("crop       " + says, self.whisker("data", command, "wide").stdout)
            self.assertNotIn("leaves out", self.whisker("data", command, "train").stdout)

    def test_numbers_in_another_order_than_lines_are_no_names(self):
        for names, says in (("1,c1\n0,c0\n", "names.txt:1: '1,c1' has the number 1 and is the name of class 0"),
                            ("c1 2\nc0 1\n", "names.txt:1: 'c1 2' has the number 2"),
                            ("1: b\n0: a\n", "'1: b' has the number 1"),
                            ("# names\na\n", "names.txt:1: expected a class name, got '# names', which looks like "
                                            "a comment")):
            (self.folder / "names.txt").write_text(names)
            self.refused(3, says, "classify", self.weights, "val", "--classes", "names.txt")
        for names in ("0 a\n1 b\n", "2 euro\n1 euro\n", "9 b\n5 a\n", "#a\n#b\n"):
            (self.folder / "names.txt").write_text(names)
            self.assertIn("--classes renames", self.said("classify", self.weights, "val", "--classes", "names.txt"))

    def test_remedies_hold(self):
        (self.folder / "flat").mkdir()
        for i in range(4):
            (self.folder / f"flat/{i}.png").write_bytes(png(16, 16, lambda x, y: (x, y, i)))
        (self.folder / "l.csv").write_text("path,label\n" + "".join(f"{i}.png,c{i % 2}\n" for i in range(4)))
        listed = ["train", "c.yaml", "data.train=flat", "data.csv=l.csv"]
        self.refused(3, "data.val: expected one folder per class in flat, got 4 images outside. data.csv holds the "
                        "labels of data.train alone", *listed, "data.val=flat")
        self.refused(3, "data.val: expected a folder of images, but l.csv is a file. Name a folder with a folder per "
                        "class", *listed, "data.val=l.csv")
        for how in (["c.yaml", "data.train=l.csv"], ["--data", "l.csv"]):
            self.refused(3, "name their folder, and add data.csv=l.csv. Texts, rows and series need a configuration",
                         "train", *how)
        (self.folder / "texts").mkdir()
        for label in ("a", "b"):
            (self.folder / f"texts/{label}.txt").write_text(f"{label} is {label}\n" * 8)
        self.refused(3, "Texts need a configuration with data.kind: text", "train", "--data", "texts")
        (self.folder / "text.yaml").write_text(
            "device: cpu\ndata: {kind: text, train: texts}\n"
            "model: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {gru: {units: 4}}, "
            "{dense: {units: classes}}]\ntrain: {epochs: 1}\n")
        self.said("train", "text.yaml", "name=text")
        text = "runs/text/best.safetensors"
        self.refused(2, f"{text}: expected weights of a network on images, got one on texts.", "train",
                     "--data", "train", "--weights", text)
        self.assertIn("DATA has no texts of 1 of the 2 classes, on which evaluation is silent: 'b'",
                      self.said("evaluate", text, self.only("texts/a.txt")))
        self.assertIn("DATA has no images of 1 of the 2 classes, on which evaluation is silent: 'c1'",
                      self.said("evaluate", self.weights, "val/c0"))
        self.assertNotIn("DATA", self.said("evaluate", self.weights, "val"))

    def only(self, file):
        """A table of the one class of this file."""
        lines = (self.folder / file).read_text().splitlines()
        (self.folder / "only.csv").write_text("".join(f"a,{line}\n" for line in lines))
        return "only.csv"

    def test_a_head_of_other_outputs_is_said(self):
        one = "model.head=[{dense: {units: 1, activation: sigmoid}}]"
        self.train_says("name=one", one)
        self.assertIn("new head, because the outputs differ (last layer: file (1,8), model (2,8))",
                      self.train_says("init.from=runs/one/best.safetensors"))

    def test_lengths_that_are_never_reached(self):
        said = self.train_says("train.accumulate=10", "schedule.warmup=5", "freeze=[backbone]", "unfreeze_at=4")
        for line in ("train.accumulate=10: an epoch has 5 batches, and a step no more",
                     "statistics of its own, not the 5 batches of a step",
                     "schedule.warmup has no effect beyond the run's end",
                     "are frozen; trained: dense\n", "unfreeze_at has no effect: it is for train.epochs above"):
            self.assertIn(line, said)

    def test_embeddings_are_not_averaged(self):
        line = "classify --embeddings: those of the images as they are; --tta averages the probabilities alone"
        self.assertIn(line, self.said("classify", self.weights, "val", "--embeddings", "e.csv", "--tta"))
        self.assertNotIn(line, self.said("classify", self.weights, "val", "--embeddings", "e.csv"))


if __name__ == "__main__":
    unittest.main()
