"""No output of a command replaces what it should not: every output option against inputs, links to them, folders of
them, pipes, devices, other files, files of runs, and itself."""

import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import threading
import unittest

from harness import CONFIG, ProgramTest, png

TEMPORARY = ".whisker-tmp"


def jpeg_size(content):
    """Width and height of a JPEG, and its comments."""
    at, comments = 2, []
    while True:
        marker, length = content[at + 1], struct.unpack(">H", content[at + 2:at + 4])[0]
        if marker == 0xfe:
            comments.append(content[at + 4:at + 2 + length])
        if 0xc0 <= marker <= 0xc2:
            height, width = struct.unpack(">HH", content[at + 5:at + 9])
            return width, height, comments
        at += 2 + length


class Outputs(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls().train("base", "train.epochs=1", "train.histogram_every=2")
        shutil.copy(cls.run_folder / "best.safetensors", cls.folder / "w.safetensors")
        (cls.folder / "names.txt").write_text("c0\nc1\n")
        (cls.folder / "labels.csv").write_text("path,label\nval/c0/500.png,c0\nval/c1/500.png,c1\n")

    def runTest(self):
        """Lets setUpClass make an instance."""

    # Every output that is a file: the command but for the file's name.
    files = {
        "predictions": ["evaluate", "w.safetensors", "--csv", "labels.csv", "--predictions"],
        "worst": ["evaluate", "w.safetensors", "val", "--worst", "2", "--out"],
        "check": ["data", "check", "val", "--report"],
        "labels": ["data", "label-issues", "train", "--weights", "w.safetensors", "-o"],
        "embeddings": ["classify", "w.safetensors", "val", "--classes", "names.txt", "--embeddings"],
        "import": ["import", "w.safetensors", "-o"],
        "export": ["export", "w.safetensors", "-o"],
        "svg": ["study", "graph", "c.yaml", "data.train=train", "--classes", "2", "-o"],
        "page": ["study", "graph", "c.yaml", "data.train=train", "--classes", "2", "-o"],
        "mermaid": ["study", "graph", "c.yaml", "data.train=train", "--classes", "2", "-o"],
        "dot": ["study", "graph", "c.yaml", "data.train=train", "--classes", "2", "-o"],
        "memory": ["study", "memory", "c.yaml", "data.train=train", "--classes", "2", "-o"],
        "flow": ["study", "gradient-flow", "runs/base", "-o"],
        "flow_page": ["study", "gradient-flow", "runs/base", "-o"],
        "roofline": ["study", "roofline", "c.yaml", "data.train=train", "--classes", "2", "-o"],
        "gradcheck": ["study", "gradcheck", "c.yaml", "data.train=train", "--classes", "2", "--elements", "1", "-o"],
        "record": ["study", "record", "c.yaml", "data.train=train", "--classes", "2", "-o"]}
    ending = {"export": ".onnx", "svg": ".svg", "page": ".html", "mermaid": ".mmd", "memory": ".svg", "dot": ".dot",
              "flow": ".svg", "flow_page": ".html", "roofline": ".svg", "gradcheck": ".svg",
              "predictions": ".csv", "worst": ".html", "check": ".html", "labels": ".html",
              "embeddings": ".csv", "import": ".safetensors", "record": ".safetensors"}

    def content(self):
        """Every file in the scratch folder with its content, but for the cache."""
        return {path: path.read_bytes() for path in self.folder.rglob("*")
                if path.is_file() and ".cache" not in path.parts}

    def refused(self, says, *command, **options):
        before = self.content()
        done = self.whisker(*map(str, command), code=2, **options)
        self.assertIn(says, done.stderr, command)
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.content(), before, command)

    def test_every_output_repeats_itself_and_leaves_other_files(self):
        for name, command in self.files.items():
            with self.subTest(name):
                out = self.folder / f"out_{name}{self.ending[name]}"
                self.whisker(*command, str(out))
                first = out.read_bytes()
                if name in ("import", "record"):
                    self.refused("never replaces a file unasked", *command, out)
                else:
                    done = self.whisker(*command, str(out))
                    self.assertIn("of an earlier command", done.stderr)
                out.write_bytes(b"path,label\n")
                self.refused("--force", *command, out)
                done = self.whisker(*command, str(out), "--force")
                self.assertIn("--force: replaced", done.stderr)
                if name != "record":  # its header holds times
                    self.assertEqual(out.read_bytes()[:8], first[:8])
                # Nor what another option wrote.
                for other, ending in self.ending.items():
                    written = self.folder / f"out_{other}{ending}"
                    if other != name and ending == self.ending[name] and written.exists():
                        self.refused("--force", *command, written)
                self.assertFalse(list(self.folder.rglob(f"*{TEMPORARY}")))

    def test_embeddings_of_nothing_replace_nothing(self):
        (self.folder / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        self.whisker("classify", "w.safetensors", "val", "--embeddings", "kept.csv")
        before = self.content()
        for out in ("kept.csv", "none.csv"):
            done = self.whisker("classify", "w.safetensors", "torn.png", "--embeddings", out, code=3)
            self.assertIn("no image could be read: nothing is written", done.stderr)
            self.assertEqual(self.content(), before)

    def test_no_output_is_an_input_or_lies_among_them(self):
        inputs = {"predictions": ["w.safetensors", "labels.csv", "val/c0/500.png"],
                  "worst": ["w.safetensors", "val/c0/500.png"], "check": ["val/c0/500.png"],
                  "labels": ["w.safetensors", "train/c0/000.png"],
                  "embeddings": ["w.safetensors", "names.txt", "val/c0/500.png"],
                  "import": ["w.safetensors"], "export": ["w.safetensors"],
                  "flow": ["runs/base/histograms.jsonl"], "flow_page": ["runs/base/histograms.jsonl"],
                  **{name: ["c.yaml"] for name in ("svg", "page", "mermaid", "memory", "roofline", "gradcheck",
                                                   "dot", "record")}}
        for name, command in self.files.items():
            ending = self.ending[name]
            for number, path in enumerate(inputs[name]):
                for link in (os.symlink, os.link, None):
                    out = self.folder / f"link_{name}{number}{link.__name__ if link else ''}{ending}"
                    if link:
                        link(self.folder / path, out)
                    elif ending in (".onnx", ".svg", ".dot", ".mmd") or name in ("page", "flow_page", "record"):
                        continue
                    else:
                        out = self.folder / path
                    with self.subTest((name, path, link)):
                        self.refused("this command", *command, out, "--force")  # an input, or among them
                        if link:
                            out.unlink()
        for name, folder in (("worst", "val"), ("check", "val"), ("labels", "train"), ("embeddings", "val/c0"), ("svg", "train"), ("dot", "train/c0")):
            self.refused("lies in the folder", *self.files[name], f"{folder}/new{self.ending[name]}", "--force")
        self.refused("lies in the folder", "evaluate", self.run_folder / "best.safetensors", "--split", "val",
                     "--predictions", "val/p.csv", "--force")

    def test_standard_input_is_an_input(self):
        listed = self.folder / "listed.csv"
        listed.write_text("val/c0/500.png\n")
        for command in (["classify", "w.safetensors", "-", "--classes", "names.txt", "--embeddings", "listed.csv"],
                        ["evaluate", "w.safetensors", "-", "--predictions", "listed.csv"]):
            with listed.open() as names:
                self.refused("is an input of this command", *command, "--force", stdin=names)
        self.assertEqual(listed.read_text(), "val/c0/500.png\n")
        for command in (["classify", "w.safetensors", "-", "--classes", "names.txt", "--embeddings", "val/new.csv"],
                        ["evaluate", "w.safetensors", "-", "--predictions", "val/c0/new.csv"]):
            self.refused("lies in the folder", *command, input="val\n")  # a folder that is named there

    def test_folders_behind_links_are_inputs_and_those_of_single_files_are_not(self):
        linked, other = self.folder / "linked", self.folder / "other"
        shutil.copytree(self.folder / "val", linked)
        shutil.copytree(self.folder / "val/c0", other)
        (linked / "c1/more").symlink_to(other)  # behind more images than a batch has
        for i in range(20):
            shutil.copy(self.folder / "val/c0/500.png", linked / f"c0/a{i}.png")
        for command in (["classify", "w.safetensors", "linked", "--embeddings"],
                        ["evaluate", "w.safetensors", "linked", "--predictions"]):
            self.refused("lies in the folder 'linked/c1/more', which this command reads", *command, "other/new.csv")
        self.whisker("classify", "w.safetensors", "other/500.png", "--embeddings", "other/new.csv")
        self.whisker("evaluate", "w.safetensors", "val/c0/500.png", "val/c1/500.png", "--predictions", "val/c0/new.csv")
        (self.folder / "val/c0/new.csv").unlink()
        for folder in (linked, other):
            shutil.rmtree(folder)

    def test_columns_that_a_person_added_are_kept(self):
        out = self.folder / "annotated.csv"
        command = [*self.files["predictions"], out]
        self.whisker(*command)
        self.whisker(*command)  # its own, twice
        written = out.read_text().replace("\n", ",comment\n")
        out.write_text(written)
        self.refused("--force", *command)
        self.assertEqual(out.read_text(), written)
        out.unlink()

    def test_edited_outputs_are_kept(self):
        """What a person changed in a page, drawing or network, or what an earlier version wrote without a checksum."""
        for name in ("worst", "check", "labels", "svg", "page", "mermaid", "memory", "dot", "export"):
            with self.subTest(name):
                out = self.folder / f"edited_{name}{self.ending[name]}"
                self.whisker(*self.files[name], out)
                written = out.read_bytes()
                at = len(written) - 3  # its values' or its text's
                for edited in (written[:at] + b"?" + written[at + 1:], written + b"\n",
                               written.replace(b", crc32 ", b", crc-32 ")):
                    self.assertNotEqual(edited, written)
                    out.write_bytes(edited)
                    self.refused("or was edited since", *self.files[name], out)
                out.write_bytes(written)
                self.whisker(*self.files[name], out)
                out.unlink()

    def test_files_of_runs_are_never_replaced(self):
        for name, file in (("predictions", "split.csv"), ("worst", "log.txt"), ("embeddings", "metrics.jsonl"),
                           ("import", "best.safetensors"), ("import", "config.yaml"), ("embeddings", "lock"),
                           ("svg", "find_lr.svg"), ("worst", "report.html"), ("import", "examples.safetensors"),
                           ("import", "last/state.json")):
            self.refused("is a file of the run", *self.files[name], self.run_folder / file, "--force")
        out = self.folder / "link_to_run.safetensors"
        out.symlink_to(self.run_folder / "best.safetensors")
        self.refused("is a file of the run", *self.files["import"], out, "--force")
        out.unlink()

    def test_pipes_and_devices_are_written_into(self):
        for name, command in self.files.items():
            with self.subTest(name):
                out = self.folder / f"pipe_{name}{self.ending[name]}"
                os.mkfifo(out)
                read = []
                thread = threading.Thread(target=lambda: read.append(out.read_bytes()), daemon=True)
                thread.start()
                self.whisker(*command, str(out))
                thread.join(timeout=60)
                plain = self.folder / f"plain_{name}{self.ending[name]}"
                self.whisker(*command, str(plain))
                self.assertTrue(out.is_fifo())
                content = plain.read_bytes()
                says = {"record": b"whisker recording", "page": b"study graph", "memory": b"study memory",
                        "roofline": b"study roofline", "worst": b"whisker evaluate", "check": b"whisker data check",
                        "labels": b"whisker data label-issues"}
                if name in says:  # they differ by dates and times, or by algorithms that are timed
                    self.assertTrue(read and says[name] in read[0])
                else:
                    self.assertTrue(read and read[0] == content)
                out.unlink()
                plain.unlink()
        for name in ("predictions", "worst", "embeddings", "import"):
            self.whisker(*self.files[name], "/dev/null")
            self.assertTrue(pathlib.Path("/dev/null").is_char_device())
        done = self.whisker(*self.files["predictions"], "/dev/stdout")
        self.assertIn("path,label,predicted,loss,probability c0", done.stdout)
        self.assertIn("images 2", done.stdout)
        with open(self.folder / "redirected", "w") as file:
            self.whisker(*self.files["predictions"], "/dev/stdout", stdout=file)
        text = (self.folder / "redirected").read_text()
        self.assertEqual(len(text.splitlines()), len(done.stdout.splitlines()))
        (self.folder / "redirected").unlink()

    def test_what_cannot_be_written_is_refused_before_anything_is_computed(self):
        broken = "broken.safetensors"  # would be refused with 4 once it is read
        (self.folder / broken).write_bytes(b"no weights")
        (self.folder / "folder.onnx").mkdir(exist_ok=True)
        for command in (["evaluate", broken, "val", "--predictions"], ["classify", broken, "val", "--embeddings"],
                        ["import", broken, "-o"], ["export", broken, "-o"]):
            self.refused("No such file or directory", *command, "absent/x.onnx")
            self.refused("got a folder", *command, "folder.onnx")
        self.refused("expected the name of a folder", "classify", broken, "val", "--cam", "c.yaml")
        if os.geteuid() != 0:
            locked = self.folder / "locked"
            locked.mkdir()
            locked.chmod(0o500)
            self.refused("Permission denied", "export", broken, "-o", "locked/x.onnx")
            self.refused("Permission denied", "classify", broken, "val", "--cam", "locked/maps")
            locked.chmod(0o700)

    def test_names_that_say_something_else(self):
        self.refused("/dev/stdout is standard output", "evaluate", "w.safetensors", "val", "--predictions", "-")
        for out, says in (("x.ONNX", "'whisker export' writes ONNX"), ("x.pth", "ends in .safetensors")):
            self.refused(says, "import", "w.safetensors", "-o", out)

    def test_two_outputs_have_two_names(self):
        (self.folder / "same").symlink_to(self.folder)
        for second in ("both.csv", "./both.csv", "same/both.csv"):
            self.refused("is an output of this command already", "evaluate", "w.safetensors", "val", "--predictions",
                         "both.csv", "--worst", "1", "--out", second)
            self.refused("is an output of this command already", "classify", "w.safetensors", "val", "--cam", "both.csv",
                         "--embeddings", second)
        (self.folder / "same").unlink()

    def test_metrics_are_printed_where_writing_fails(self):
        for command in (["evaluate", "w.safetensors", "val", "--predictions", "/dev/full"],
                        ["classify", "w.safetensors", "val", "--json", "--embeddings", "/dev/full"]):
            done = self.whisker(*command, code=6)
            self.assertIn("No space left on device", done.stderr)
            self.assertIn('"images"' if "--json" in command else "images 10", done.stdout)

    def test_a_signal_leaves_no_file(self):
        """While the command waits for a name on standard input."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process = self.start("classify", "w.safetensors", "-", "--embeddings", "stopped.csv", "--cam",
                                 "stopped/maps", stdin=subprocess.PIPE)
            process.stdin.write("val/c0/500.png\n")
            process.stdin.flush()
            process.stdout.readline()
            self.assertTrue(list(self.folder.glob(f".*{TEMPORARY}")))
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -number)
            self.assertFalse(list(self.folder.rglob(f"*{TEMPORARY}")))
            self.assertFalse((self.folder / "stopped.csv").exists())
            shutil.rmtree(self.folder / "stopped", ignore_errors=True)

    def test_maps_keep_size_and_folders_and_name_the_class(self):
        (self.folder / "photos/cat").mkdir(parents=True)
        (self.folder / "photos/dog").mkdir()
        sizes = {"cat/0": (40, 30), "dog/0": (17, 61), "1": (16, 16)}
        for name, (width, height) in sizes.items():
            (self.folder / f"photos/{name}.png").write_bytes(png(width, height, lambda x, y: [x * 3 % 256, y, 90]))
        done = self.whisker("classify", "w.safetensors", "photos", "--cam", "maps")
        for line in done.stdout.splitlines():
            path, result = line.split(":  ")
            name = path.removeprefix("photos/").removesuffix(".png")
            kind, probability = result.split(" ")
            content = (self.folder / f"maps/{name}_{kind}_{probability}.jpg").read_bytes()
            width, height, comments = jpeg_size(content)
            self.assertEqual((width, height), sizes[name])
            self.assertRegex(comments[0], b"^heat map by whisker classify --cam, crc32 [0-9a-f]{8}, "
                             b"weights of [0-9]+ bytes, hash [0-9a-f]{16}$")
        self.assertEqual(len([p for p in (self.folder / "maps").rglob("*.jpg")]), 3)
        said = self.whisker("classify", "w.safetensors", "maps", code=3).stderr
        self.assertIn("there are 3 other files, 3 of them written by classify --cam: name such files", said)
        again = self.whisker("classify", "w.safetensors", "photos", "--cam", "maps")
        self.assertRegex(again.stderr, "replaced a heat map of classify --cam with these weights of an earlier command: "
                         "'.*' and 2 more")
        first = next((self.folder / "maps/cat").iterdir())
        # Other weights, whose classes and probabilities give the same names.
        content = (self.folder / "w.safetensors").read_bytes()
        (self.folder / "other.safetensors").write_bytes(content.replace(b'"epoch":"1"', b'"epoch":"9"', 1))
        before = first.read_bytes()
        done = self.whisker("classify", "other.safetensors", "photos", "--cam", "maps", code=2)
        self.assertIn("is not a heat map of classify --cam with these weights", done.stderr)
        self.assertEqual(first.read_bytes(), before)
        done = self.whisker("classify", "other.safetensors", "photos", "--cam", "maps", "--force")
        self.assertIn("--force: replaced: ", done.stderr)
        self.assertNotEqual(first.read_bytes(), before)
        first.write_bytes(b"mine")
        done = self.whisker("classify", "w.safetensors", "photos", "--cam", "maps", code=2)
        self.assertEqual(len(done.stdout.splitlines()), 3)  # what is computed is printed
        self.assertEqual(first.read_bytes(), b"mine")
        # Named one by one: below the folder that they have in common.
        self.whisker("classify", "w.safetensors", "photos/cat/0.png", "photos/dog/0.png", "--cam", "maps2")
        self.assertEqual(sorted(p.name for p in (self.folder / "maps2").iterdir()), ["cat", "dog"])
        for folder in ("photos", "photos/cat", "photos/cat/maps", "."):
            self.refused("which this command reads", "classify", "w.safetensors", "photos", "--cam", folder, "--force")
        self.refused("which this command reads", "classify", "w.safetensors", "photos/cat/0.png", "--cam", "photos/cat")
        os.symlink(self.folder / "photos", self.folder / "link")
        self.refused("which this command reads", "classify", "w.safetensors", "photos", "--cam", "link")
        done = self.whisker("classify", "w.safetensors", "-", "--cam", "photos", code=2, input="photos/cat/0.png\n")
        self.assertIn("which this command reads", done.stderr)
        self.assertEqual(len(list((self.folder / "photos").rglob("*"))), 5)

    def test_weights_hold_no_paths(self):
        run = self.folder / "runs/secret"
        self.whisker("train", "c.yaml", f"data.train={self.folder}/train", f"data.val={self.folder}/val", "name=secret",
                     f"init.from={self.folder}/w.safetensors", f"runs={self.folder}/runs", "train.epochs=1")
        content = (run / "best.safetensors").read_bytes()
        self.assertNotIn(str(self.folder).encode(), content)
        self.assertIn("image_size: 16", self.metadata("runs/secret/best.safetensors")["config"])
        # What needs the paths reads the run folder.
        self.assertIn("images 10", self.whisker("evaluate", str(run / "best.safetensors"), "--split", "val").stdout)
        self.whisker("train", "--resume", str(run), "train.epochs=2")
        self.whisker("export", str(run / "best.safetensors"), "-o", "secret.onnx", "--preprocess")
        self.assertNotIn(str(self.folder).encode(), (self.folder / "secret.onnx").read_bytes())
        # Older weights lose theirs on import.
        metadata = self.metadata("runs/secret/best.safetensors")
        old = metadata["config"].replace('train: ""', f'train: "{self.folder}/train"')
        self.assertNotEqual(old, metadata["config"])
        length = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + length])
        header["__metadata__"]["config"] = old
        text = json.dumps(header).encode()
        (self.folder / "old.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:])
        self.whisker("classify", "old.safetensors", "val")
        self.whisker("import", "old.safetensors", "-o", "new.safetensors")
        self.assertNotIn(str(self.folder).encode(), (self.folder / "new.safetensors").read_bytes())

    def test_pages_hold_no_paths(self):
        out = self.folder / "shown.html"
        for data in ([self.folder / "val"], [self.folder / "val/c0", "val/c1"]):  # in one folder; not, as they are named
            self.whisker("evaluate", self.folder / "w.safetensors", *data, "--worst", "10", "--out", out)
            text = out.read_text()
            self.assertNotIn(str(self.folder), text)
            self.assertIn('<p class="path">c1/500.png</p>' if len(data) == 1 else '<p class="path">val/c1/500.png</p>', text)
            self.assertIn(">c0/500.png</p>", text)

    def test_missing_best_weights_are_written_again(self):
        for spoil, says in ((pathlib.Path.unlink, "are missing"), (lambda p: p.write_bytes(b""), "are an empty file"),
                            (lambda p: p.write_bytes(p.read_bytes()[:-4]), "are damaged")):
            run = self.train(f"best_{says.split()[-1]}", "train.epochs=2")
            best = run / "best.safetensors"
            tensors = self.safetensors(best)[1].keys()
            spoil(best)
            done = self.whisker("train", "--resume", str(run), "train.epochs=3")
            for said in (done.stderr, (run / "log.txt").read_text()):
                self.assertIn(f"the best weights {says}", said)
                self.assertIn("the next validation writes it again", said)
            self.assertEqual(self.safetensors(best)[1].keys(), tensors)
            self.assertEqual(self.metadata(best)["epoch"], "3")
            spoil(best)  # of a run without another epoch
            done = self.whisker("train", "--resume", str(run))
            self.assertIn("a validation of the last weights writes it again", done.stderr)
            self.assertEqual(self.metadata(best)["epoch"], "3")
            self.assertNotIn("the best weights", self.whisker("train", "--resume", str(run)).stderr)

    def test_foreign_best_weights_stay(self):
        run = self.train("own_best", "train.epochs=2")
        best = run / "best.safetensors"
        whole = best.read_bytes()
        length = struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8:8 + length])
        metadata = header["__metadata__"]
        epoch, metrics = metadata["epoch"], json.loads(metadata["metrics"])

        def with_metadata(**changes):
            text = json.dumps(dict(header, __metadata__=dict(metadata, **changes))).encode()
            return struct.pack("<Q", len(text)) + text + whole[8 + length:]

        (self.folder / "other.yaml").write_text(CONFIG.replace("filters: 8", "filters: 4"))
        self.whisker("train", "other.yaml", *self.data, "name=other_best", "train.epochs=1")
        other = (self.folder / "runs/other_best/best.safetensors").read_bytes()
        worse, better = (json.dumps(dict(metrics, accuracy=accuracy)) for accuracy in (-1, 2))
        for content, says in ((other, "got those of another network: "), (with_metadata(classes='["c0","c9"]'), "other classes"),
                              (with_metadata(epoch=str(int(epoch) - 1) if epoch != "1" else epoch, metrics=worse),
                               f"expected this run's best weights, of epoch {epoch} with accuracy"),
                              (with_metadata(metrics=better), f"got some of epoch {epoch} with accuracy 2")):  # another run's
            best.write_bytes(content)
            done = self.whisker("train", "--resume", str(run), "train.epochs=3", code=4)
            self.assertIn(says, done.stderr)
            self.assertEqual(best.read_bytes(), content)
        best.unlink()
        best.mkdir()
        self.assertIn("got a folder", self.whisker("train", "--resume", str(run), "train.epochs=3", code=4).stderr)
        best.rmdir()
        for content in (with_metadata(epoch="9"), with_metadata(epoch="", metrics=better)):  # later than the checkpoint
            best.write_bytes(content)
            done = self.whisker("train", "--resume", str(run))
            self.assertIn("later than the checkpoint: kept until a validation is better", done.stderr)
            self.assertEqual(best.read_bytes(), content)
        best.write_bytes(whole)
        self.assertNotIn("best weights", self.whisker("train", "--resume", str(run), "train.epochs=3").stderr)

    def test_a_run_inside_its_data_resumes(self):
        photos = self.folder / "inside"
        shutil.copytree(self.folder / "train", photos)
        (photos / "c.yaml").write_text(CONFIG)
        for number in range(2):  # the second run sees the first one's folder
            done = self.whisker("train", "c.yaml", "data.train=.", "data.val_split=0.2", "name=a", cwd=photos)
            self.assertIn("the run folder lies in data.train (.): folders of runs are never data", done.stderr)
            self.assertIn("lies in data.train", (photos / "runs/a/log.txt").read_text())
        for run in ("runs/a", "runs/a-2"):
            self.whisker("train", "--resume", run, "train.epochs=3", cwd=photos)
        self.assertEqual(len(self.whisker("classify", "runs/a/best.safetensors", ".", cwd=photos).stdout.splitlines()), 40)
        self.whisker("evaluate", "runs/a/best.safetensors", ".", cwd=photos)
        self.whisker("train", "--data", ".", "--weights", "runs/a/best.safetensors", "train.epochs=1", "name=b",
                     "device=cpu", cwd=photos)
        self.assertNotIn("lies in data.train", self.whisker("train", "c.yaml", *self.data, "name=beside",
                                                            "train.epochs=1").stderr)


if __name__ == "__main__":
    unittest.main()
