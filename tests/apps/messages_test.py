"""What the program says when something is not as it should be: the place, what was expected, and what to do."""

import json
import os
import re
import shutil
import unittest

from harness import CONFIG, ProgramTest, stripes, write_classes


class Messages(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().train("base", "train.epochs=3")
        cls.weights = "runs/base/best.safetensors"

    def runTest(self):
        """Lets setUpClass make an instance."""

    def file(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def refused(self, code, says, *arguments):
        done = self.whisker(*arguments, code=code)
        self.assertEqual(done.stdout, "")
        self.assertIn(says, done.stderr)
        return done

    def test_statistics_of_unreadable_images(self):
        write_classes(self.folder / "some", 3)
        self.file("some/c0/bad.jpg", "no image")
        done = self.whisker("data", "stats", "some", code=3)
        self.assertIn("6 images, 1 unreadable", done.stdout)
        self.assertRegex(done.stderr, r"^whisker: error: some/c0/bad\.jpg: a text file")
        self.assertEqual(json.loads(self.whisker("data", "stats", "some", "--json", code=3).stdout)["unreadable"], 1)
        for label in ("a", "b"):
            self.file(f"none/{label}/1.jpg", "no image")
        self.refused(3, "none of the 2 images in none can be read; the first, a/1.jpg: a text file",
                     "data", "stats", "none")

    def test_a_check_names_everything_at_once(self):
        write_classes(self.folder / "wrong", 4)
        write_classes(self.folder / "wrong_val", 2, 500)
        self.file("wrong/c0/bad.png", "no image")
        self.file("wrong/loose.png", stripes(0, 3))
        self.file("wrong/empty/notes.txt", "no image")
        self.file("wrong_val/empty/bad.jpg", "no image")
        done = self.whisker("data", "check", "wrong", "--val", "wrong_val", code=3)
        for line in (r"problem    data check: no images in the class folders 'empty' of wrong\.",
                     r"problem    data: train and val differ in their classes", r"bad        wrong/c0/bad\.png: ",
                     r"bad        wrong_val/empty/bad\.jpg: ", r"skipped    not in a class folder: 'loose\.png'",
                     r"14 images, 2 bad"):
            self.assertRegex(done.stdout, r"(?m)^" + line)
        found = json.loads(self.whisker("data", "check", "wrong", "--val", "wrong_val", "--json", code=3).stdout)
        self.assertEqual((len(found["problems"]), len(found["bad"]), found["images"]), (2, 2, 14))
        done = self.whisker("data", "check", "wrong", "--val", "nowhere", code=3)
        self.assertRegex(done.stdout, r"(?m)^problem    data check --val: expected a folder, but nowhere does not")
        self.assertRegex(done.stdout, r"(?m)^bad        wrong/c0/bad\.png: ")
        self.refused(3, "expected a folder, but nowhere does not exist", "data", "check", "nowhere")
        self.assertEqual(json.loads(self.whisker("data", "check", "train", "--json").stdout)["problems"], [])

    def test_a_check_takes_folders_as_training_does(self):
        write_classes(self.folder / "whole/train", 4)
        self.file("whole/test1/1.png", stripes(0, 3))
        done = self.whisker("data", "check", "whole")
        self.assertIn("splits     training whole/train; not read: whole/test1 without labels\n", done.stdout)
        for label in ("a", "b"):
            for year in ("2019", "2020"):
                self.file(f"years/{label}/{year}/1.png", stripes(int(label == "b"), int(year)))
        self.assertEqual(self.whisker("data", "check", "years").stdout.count("are read as classes, though"), 1)

    def test_remedies_go_with_data(self):
        for name in ("train/c0", "train/c1", "other/c0", "other/c1"):
            self.file(f"mixed/{name}/1.png", stripes(0, 3))
        self.refused(3, "as splits: --data mixed/train.", "train", "--data", "mixed")
        self.refused(2, "command line: model.recompute: model is the name 'resnet18' alone. Its keys are given with "
                     "it: 'model={preset: resnet18, recompute: true}'.", "train", "--data", "train", "--model",
                     "resnet18", "model.recompute=true")

    def test_copies_of_images_validate_together(self):
        write_classes(self.folder / "copies", 10)
        for label in ("c0", "c1"):
            for i in range(5):
                (self.folder / f"copies/{label}/again{i}.png").write_bytes(stripes(int(label[1]), i))
        done = self.whisker("train", "c.yaml", "name=copies", "data.train=copies", "data.val_split=0.3")
        self.assertIn("data.val_split: 10 images identical to another; identical images stay in the same split",
                      done.stderr)

    def test_a_batch_size_that_was_found_is_told_and_kept(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=found", "train.batch_size=auto", "train.epochs=1")
        found = re.search(r"train\.batch_size: auto is (\d+)", done.stderr)[1]
        self.assertIn(f"batch_size: {found}", next(self.folder.glob("runs/found*/config.yaml")).read_text())

    def test_the_last_table_says_its_epoch(self):
        utf8, ascii = ({**os.environ, "LC_ALL": locale} for locale in ("C.UTF-8", "C"))
        done = self.whisker("train", "c.yaml", *self.data, "name=table", "train.epochs=3", env=utf8)
        best = int(re.search(r"best validation accuracy [\d.]+ in epoch (\d)", done.stderr)[1])
        self.assertIn("validation after epoch 3" + (", the best:" if best == 3 else
                                                    f"; best.safetensors is of epoch {best}:"), done.stderr)
        self.assertRegex(done.stderr, r"loss over 3 epochs:\n  training    [▁-█]{3}  [\d.]+ to [\d.]+.*\n  validation  [▁-█]{3}  ")
        done = self.whisker("train", "--resume", "runs/table", "train.epochs=4", env=ascii)
        self.assertNotIn("loss over", done.stderr)
        self.assertIn("loss over 4 epochs:", (self.folder / "runs/table/log.txt").read_text())

    def test_a_slow_stage_is_told_once(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=slow", "train.epochs=4", "data.image_size=200",
                            "data.val=train", "train.batch_size=16")
        self.assertLessEqual(done.stderr.count("  slow: "), 1)
        self.assertIn("data.val is data.train: validation does not measure other images", done.stderr)

    def test_configurations(self):
        for key, value, says in (
                ("device", "gpu", "1:9: device: expected auto, cpu, reference, cuda or cuda:N, got 'gpu'. "
                                  "Did you mean 'cuda'?"),
                ("name", "../../x", "1:7: name: expected a plain folder name, got '../../x'."),
                ("precision", "f16", "1:12: precision: expected f32 or bf16, as device is cpu")):
            lines = CONFIG.split("\n")
            text = "\n".join([f"{key}: {value}"] + (lines[1:] if key == "device" else lines))
            self.refused(2, f"{key}.yaml:{says}", "train", self.file(f"{key}.yaml", text), *self.data)
        self.refused(2, "expected auto, cpu, reference, cuda or cuda:N, got 'gpu'. Did you mean 'cuda'?",
                     "evaluate", self.weights, "val", "--device", "gpu")
        tab = CONFIG.replace("  layers:", "\tlayers:")
        self.refused(2, "Line 4 begins with a tab; YAML is indented by spaces.", "train", self.file("tab.yaml", tab))
        self.refused(2, "list.yaml:1:1: expected a map of keys", "train", self.file("list.yaml", "- a\n"), "name=x")
        self.refused(2, "got a list. The list has 2.", "train", "c.yaml", "data.mean=[1,2]")
        self.refused(2, "got '1e400'. It must fit a double.", "train", "c.yaml", "optimizer.lr=1e400")
        self.refused(2, "runs/base/config.yaml describes its network.", "summary", self.weights)
        self.refused(2, "got a run folder. Give runs/base/config.yaml.", "summary", "runs/base")
        self.refused(2, "command line: lr: unknown key. Did you mean 'optimizer.lr'?", "train", "c.yaml", "lr=0.1")
        self.refused(2, "a setting, 'data=my photos'. Train on a folder of images: whisker train --data 'my photos'",
                     "train", "data=my photos", "model=resnet18")
        self.refused(2, "unexpected argument 'net.onnx'. The file to write is given as -o FILE.", "export", self.weights,
                     "net.onnx")
        self.refused(3, " data.train=DIR names another.", "train", "c.yaml", "data.train=gone")
        self.refused(2, "net.yaml:1:1: layers: a network alone", "summary",
                     self.file("net.yaml", "layers: [flatten]\n"))
        self.refused(3, "data.train: no file 'gone.csv'.", "train", "c.yaml", "data.kind=rows",
                     "data.train=gone.csv", "data.val_split=0.1")

    def test_bench_names_its_own_option(self):
        self.refused(2, "--batch: expected at most the 40 examples", "bench", "c.yaml", *self.data,
                     "--batch", "65536")
        self.refused(2, "got '1,,2'", "bench", "c.yaml", *self.data, "--batch", "1,,2")
        sizes = self.whisker("bench", "c.yaml", *self.data, "--batch", "2,4", "--steps", "2", "--json").stdout
        self.assertEqual([json.loads(line)["batch"] for line in sizes.splitlines()], [2, 4])

    def test_a_resumed_run_stays_in_its_folder(self):
        for key in ("name", "runs"):
            self.refused(2, f"--resume: '{key}=other': a resumed run stays in its folder", "train", "--resume",
                         "runs/base", f"{key}=other")

    def test_what_a_damaged_run_can_still_do(self):
        run = self.train("torn")
        remedy = "Start a new run from runs/torn/best.safetensors with --init instead."
        state = run / "last/state.json"
        whole = state.read_text()
        state.write_text(whole[:len(whole) // 2])
        self.refused(4, remedy, "train", "--resume", "runs/torn")
        state.write_text(whole)
        (run / "last" / json.loads(whole)["model"]["name"]).unlink()
        self.refused(4, remedy, "train", "--resume", "runs/torn")
        state.unlink()
        self.refused(4, remedy, "train", "--resume", "runs/torn")
        self.refused(7, "No weights were saved in runs/up before.", "train", "c.yaml", *self.data, "name=up",
                     "optimizer.lr=1e38", "optimizer.kind=sgd")

    def test_the_remedy_is_the_right_one(self):
        flat = CONFIG.replace("    - global_avg_pool2d\n", "")
        self.refused(2, "got (8,14,14,2). Put global_avg_pool2d or flatten before the last dense layer", "train",
                     self.file("flat.yaml", flat), *self.data)
        self.refused(2, "Use `units: classes` in the last dense layer.", "train",
                     self.file("units.yaml", CONFIG.replace("units: classes", "units: 7")), *self.data)
        one = CONFIG.replace("    - global_avg_pool2d\n", "    - global_avg_pool2d\n    - batch_norm\n")
        self.refused(2, "got 1 in a batch of 1. Use train.batch_size=2.", "train", self.file("one.yaml", one), *self.data,
                     "--batch-size", "1")
        write_classes(self.folder / "three", 4)
        for i in range(4):
            self.file(f"three/c2/{i}.png", stripes(0, i + 50))
        self.refused(4, "They are of another number of classes: init.new_head=true trains a new last layer.", "train",
                     "c.yaml", "data.train=three", "data.val_split=0.5", "--init", self.weights, "init.new_head=false")
        for name in ("net.keras", "net.h5"):
            self.refused(2, "got a network of another program, '" + name, "train", name)
        self.file("net.h5", b"\x89HDF\r\n\x1a\n" + bytes(100))
        self.refused(4, "got an HDF5 file. Save its arrays", "train", "--data", "train", "--weights", "net.h5")
        shutil.copytree(self.folder / "train", self.folder / "both/train")
        shutil.copytree(self.folder / "val", self.folder / "both/val")
        self.assertIn("training both/train, validation both/val", self.whisker("data", "check", "both").stdout)
        done = self.refused(4, "no preset has its tensors' names and shapes", "train", "--data", "train", "--weights",
                            self.odd_network())
        self.assertIn("Start from weights of another network ('whisker models' lists them)", done.stderr)

    def odd_network(self):
        """Weights as another program makes them: without metadata, of no preset."""
        header = json.dumps({"conv9.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        return self.file("resnet50d.safetensors", len(header).to_bytes(8, "little") + header + bytes(4))

    def test_one_class_is_no_classes(self):
        for i in range(3):
            self.file(f"alike/cat.{i}.png", stripes(0, i))
        self.refused(3, "expected at least two classes in alike, got only 'cat'", "train", "c.yaml", "data.train=alike",
                     "data.val_split=0.5", "--label-pattern", "{label}.*.png")


if __name__ == "__main__":
    unittest.main()
