"""Foreign text stays text: nothing in a name, label, file or argument reaches a terminal, a log or a result unescaped,
and nothing of it begins a line of its own."""

import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import unittest

from harness import CONFIG, PROGRAM, ProgramTest, read_all, stripes

# An operating system command with BEL, a colour, a bare BEL, C1 (as UTF-8 and as a byte), bidirectional marks, what ends
# a line somewhere, DEL, and bytes that are no UTF-8.
PARTS = ["\x1b]0;owned\x07", "\x1b[31m", "\x07\x08", "\u009b2J", "\u0085", "\u202e", "\u2066\u061c\u200f", "\u2028\u2029",
         "\x7f", "\tFORGED", "\r\nFORGED", "\n  FORGED"]
VALID = "x" + "".join(PARTS)
BROKEN = VALID + os.fsdecode(b"\x9b1m\xff")
CORPUS = ["x" + part for part in PARTS] + [BROKEN]

STEERING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\udc80-\udcff]")
FORGED = re.compile(r"^\s*FORGED", re.MULTILINE)
SUBCOMMANDS = [["train"], ["evaluate"], ["classify"], ["bench"], ["generate"], ["summary"], ["data", "check"],
               ["import", "-o=imported.safetensors"], ["export", "-o=exported.onnx"],
               ["data", "stats"], ["data", "generate", "--per-class=1", "--val-per-class=1"], ["study", "trace"], ["study", "graph"],
               ["study", "step"], ["study", "why"], ["study", "memory"], ["study", "compare"], ["study", "roofline"], ["study", "record", "-o=step.safetensors"], ["study", "gradcheck"], ["study", "grade"], ["config", "print"], ["config", "schema"], ["config", "keys"], ["devices"],
               ["version"], ["models"], ["report"], ["completion", "bash"]]

TEXTS = """device: cpu
data: {kind: text, train: texts.csv, val_split: 0.2, workers: 0, text: {columns: [label, text]}}
model:
  layers: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {lstm: {units: 4}}]
  head: [{dense: {units: classes}}]
train: {epochs: 1, batch_size: 8}
"""
LANGUAGE = """device: cpu
data: {kind: language, train: words.txt, val_split: 0.1, text: {steps: 8}}
model:
  layers: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {lstm: {units: 4, return_sequences: true}}]
  head: [{dense: {units: classes}}]
train: {epochs: 1, batch_size: 8}
"""
SERIES = """device: cpu
data: {kind: series, train: series.csv, val_split: 0.25, series: {columns: [2], window: 4}}
model: {layers: [{gru: {units: 4}}, {dense: {units: 1}}]}
train: {epochs: 1, batch_size: 8}
"""


class HostileText(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.classes = ["a" + VALID, "b" + VALID]
        for label, name in enumerate(cls.classes):
            (cls.folder / "hostile" / name).mkdir(parents=True)
            for i in range(8):
                (cls.folder / "hostile" / name / f"{i}{BROKEN}.png").write_bytes(stripes(label, i))
        (cls.folder / "hostile" / cls.classes[0] / f"8{BROKEN}.png").write_bytes(stripes(0, 7))  # a duplicate
        cls().train("plain", "train.epochs=1")
        cls.weights = "runs/plain/best.safetensors"

    def runTest(self):
        """Lets setUpClass make an instance."""

    def check(self, text, what):
        self.assertIsNone(STEERING.search(text), f"{what}\n{text!r}")
        self.assertIsNone(FORGED.search(text), f"{what}\n{text}")

    def says(self, *arguments, shows=None, own_lines=True, **options):
        """stdout and stderr of a command, both checked; `shows` stands in one of them. Without `own_lines` the result
        may have lines of the foreign text, which it is."""
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, capture_output=True, timeout=120, **options)
        texts = [stream.decode("utf-8", "surrogateescape") for stream in (done.stdout, done.stderr)]
        for text in texts:
            self.check(text if own_lines else re.sub(r"\n *FORGED", "", text), arguments)
        self.assertGreaterEqual(done.returncode, 0, texts)
        self.assertNotEqual(done.returncode, 1, texts)
        if shows:
            self.assertIn(shows, texts[0] + texts[1], arguments)
        return texts

    def options_of(self, command):
        help_text = self.says(*command, "--help")[0]
        return sorted(set(re.findall(r"--[a-z][a-z-]*", help_text)) - {"--help", "--version"})

    def test_raw_arguments_of_every_subcommand(self):
        subcommands = self.says("--help")[0].partition("Subcommands:")[2].partition("Examples:")[0]
        listed = set(re.findall(r"^  ([a-z]+) ", subcommands, re.MULTILINE))
        self.assertEqual(listed, {command[0] for command in SUBCOMMANDS})
        for text in CORPUS:
            self.says(text)
            self.says("--" + text)
        for command in SUBCOMMANDS:
            for text in ("x\nFORGED", VALID, BROKEN):
                self.says(*command, text)
            self.says(*command, "--" + BROKEN, shows="unknown option")
            self.says(*command, "c.yaml", BROKEN)
            for option in self.options_of(command):
                self.says(*command, "c.yaml", f"{option}={BROKEN}")
        for command in (["train"], ["summary"], ["bench"], ["config", "print"], ["config", "schema"], ["study", "trace"],
                        ["study", "gradcheck"]):
            for assignment in (f"{BROKEN}=1", f"name={BROKEN}", f"data.train={BROKEN}", f"train.{VALID}=1",
                               f"device={VALID}", f"optimizer.lr={VALID}", f'data.mean=["{VALID}"]'):
                self.says(*command, "c.yaml", assignment)
        for command in (["evaluate"], ["classify"], ["generate", "--prompt", BROKEN], ["export", "-o=exported.onnx"]):
            self.says(*command, self.weights, BROKEN)
            self.says(*command, BROKEN, BROKEN)

    def test_configurations(self):
        quoted = json.dumps(VALID)
        lines = CONFIG.splitlines()
        for text in (f"{quoted}: 1\n{CONFIG}", f"name: {quoted}\n{CONFIG}", CONFIG + f"optimizer: {{{quoted}: 1}}\n",
                     CONFIG + f"optimizer: {{kind: {quoted}}}\n", CONFIG + f"init: {{from: {quoted}}}\n",
                     CONFIG.replace("batch_norm", quoted), CONFIG.replace("conv2d: {", f"conv2d: {{{quoted}: 1, "),
                     CONFIG.replace("conv2d: {", f"conv2d: {{name: {quoted}, "),
                     CONFIG + f"freeze: [{quoted}]\n", "\n".join(lines[:3]) + "\n  " + VALID):
            (self.folder / "h.yaml").write_text(text)
            for command in (["train"], ["summary"], ["config", "print"], ["study", "trace"], ["study", "graph"]):
                wraps = command == ["study", "trace"]  # the cell of a long name
                self.says(*command, "h.yaml", *self.data, own_lines=not wraps)
        printed = self.says("config", "print", "c.yaml", f"runs={quoted}")[0]
        self.assertIn("\\u202e", printed)
        (self.folder / "again.yaml").write_text(printed)
        self.assertEqual(self.says("config", "print", "again.yaml")[0], printed)
        self.says("data", "stats", "h.yaml", BROKEN)

    def test_images(self):
        data = ["data.train=hostile", "data.val=hostile", "train.epochs=1"]
        self.says("train", "c.yaml", *data, r'name="h\u202e\u009b"', shows="\\u009b")
        run = next(f for f in (self.folder / "runs").iterdir() if "\u202e" in f.name)
        for name in ("log.txt", "metrics.jsonl", "config.yaml"):
            text = (run / name).read_bytes().decode("utf-8", "surrogateescape")
            self.check(text, name)
        self.assertIn("\\u202e", (run / "log.txt").read_text())
        weights = str(run / "best.safetensors")
        image = str(next((self.folder / "hostile" / self.classes[0]).iterdir()))
        for command in (["train", "--resume", str(run), "train.epochs=2"], ["evaluate", weights, "hostile"],
                        ["evaluate", weights, "hostile", "--json"], ["classify", weights, "hostile"],
                        ["classify", weights, image, "-v"], ["classify", weights, "hostile", "--json"],
                        ["classify", weights, "hostile", "--jsonl"], ["data", "check", "hostile"],
                        ["data", "check", "hostile", "--json"], ["data", "check", "hostile", "--val", "train"],
                        ["data", "stats", "hostile"], ["data", "stats", "hostile", "--json"]):
            self.says(*command, shows="\\u009b")
        for command in (["train", "c.yaml", *data, "--dry-run"], ["bench", "c.yaml", *data, "--steps", "1"],
                        ["summary", "c.yaml", *data], ["study", "trace", "c.yaml", *data],
                        ["study", "graph", "c.yaml", *data], ["evaluate", weights, "train"],
                        ["evaluate", weights, "--label-pattern", "{label}.*.png", "hostile"],
                        ["train", "c.yaml", "data.train=hostile", "data.val=val"]):
            self.says(*command)
        lines = self.says("classify", weights, "hostile", "--jsonl")[0].splitlines()
        self.assertEqual({json.loads(line)["predictions"][0]["class"][0] for line in lines} - {"a", "b"}, set())
        self.assertEqual(len(lines), 17)

    def test_unreadable_images(self):
        shutil.copytree(self.folder / "hostile", self.folder / "bad")
        (self.folder / "bad" / self.classes[0] / f"bad{BROKEN}.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        (self.folder / "bad" / self.classes[0] / f"moving{BROKEN}.gif").write_bytes(b"GIF89a")
        for command in (["data", "check", "bad"], ["data", "check", "bad", "--json"], ["data", "stats", "bad"],
                        ["classify", self.weights, "bad"], ["classify", self.weights, "bad", "--jsonl"],
                        ["train", "c.yaml", "data.train=bad", "data.val=bad", "data.max_bad=0.5", "train.epochs=1"],
                        ["train", "c.yaml", "data.train=bad", "data.val=bad", "data.max_bad=0"]):
            self.says(*command, shows="\\u009b")
        listed = "".join(f"x{part}\n" for part in PARTS)
        self.says("classify", self.weights, "-", input=listed.encode("utf-8", "surrogateescape"), shows="\\u009b")
        self.says("evaluate", self.weights, "-", input=listed.encode("utf-8", "surrogateescape"), shows="\\x1b")

    def test_labels_in_file_names(self):
        (self.folder / "flat").mkdir()
        for i, label in enumerate(["cat" + VALID, "dog" + VALID]):
            for k in range(2):
                (self.folder / "flat" / f"{label}.{k}{BROKEN}.png").write_bytes(stripes(i, k))
        (self.folder / "flat" / f"cat{VALID}.9.png").write_bytes(b"no image")
        for command in (["data", "check"], ["data", "stats"]):
            for pattern in ("{label}.*", VALID + "{label}.*"):
                self.says(*command, "flat", "--label-pattern", pattern)
        self.says("train", "c.yaml", "data.train=flat", "data.val_split=0.5", "data.label_pattern='{label}.*'",
                  "data.max_bad=0.5", "train.epochs=1")

    def test_generated_folders(self):
        self.says("data", "generate", f"drawn{BROKEN}", "--per-class", "1", "--val-per-class", "1", shows="\\u009b")

    def test_csv_labels(self):
        rows = ["path,label"] + [f'"val/c0/{500 + i}.png","{label}"' for i, label in enumerate(["c0", VALID])]
        (self.folder / "h.csv").write_bytes("\n".join(rows).encode())
        self.says("evaluate", self.weights, "--csv", "h.csv", shows="\\u009b")
        (self.folder / "p.csv").write_bytes(f'path,label\n"{VALID}.png",c0\n'.encode())
        self.says("evaluate", self.weights, "--csv", "p.csv", shows="\\u009b")
        (self.folder / f"{BROKEN}.csv").write_bytes(f'"{VALID}"\n'.encode())
        self.says("evaluate", self.weights, "--csv", f"{BROKEN}.csv", shows="\\u009b")
        (self.folder / "b.csv").write_bytes(b'path,label\n"\x9b1m.png",\x9b\n')
        self.says("evaluate", self.weights, "--csv", "b.csv")

    def test_texts(self):
        lines = [f'"{label}{VALID}","{label * 3} word{i}"' for i in range(20) for label in "ab"]
        (self.folder / "texts.csv").write_bytes(("label,text\n" + "\n".join(lines) + "\n").encode())
        (self.folder / "texts.yaml").write_text(TEXTS.replace(", text: {columns: [label, text]}", ""))
        folder = self.folder / "texts"
        folder.mkdir()
        for label in "ab":
            (folder / f"{label}{VALID}.txt").write_text("".join(f"{label * 3} word{i}\n" for i in range(20)))
        self.says("train", "texts.yaml", "data.train=texts", "name=texts", shows="\\u009b")
        weights = "runs/texts/best.safetensors"
        for data in ("texts", "texts.csv", f"texts/a{VALID}.txt"):
            self.says("evaluate", weights, data)
            self.says("data", "check", "texts.yaml", f"data.train={data}")
            self.says("data", "stats", "texts.yaml", f"data.train={data}")
            self.says("train", "texts.yaml", f"data.train={data}", "name=more")
        for text in CORPUS:
            for form in ([], ["--json"], ["--jsonl"]):
                self.says("classify", weights, "--text", text, *form, shows="x")
        self.says("classify", weights, "-", input=BROKEN.encode("utf-8", "surrogateescape"), own_lines=False)
        self.says("generate", weights, "--prompt", BROKEN, own_lines=False)

    def test_language_and_series(self):
        (self.folder / "words.txt").write_text(("the cat sat. " + VALID) * 60)
        (self.folder / "language.yaml").write_text(LANGUAGE)
        self.says("train", "language.yaml", "name=language")
        self.says("generate", "runs/language/best.safetensors", "--prompt", "the" + VALID, "--temperature", "5",
                  "--length", "300", shows="\\u009b", own_lines=False)
        self.says("generate", "runs/language/best.safetensors", "--prompt", BROKEN, own_lines=False)
        (self.folder / "words.txt").write_bytes(("the cat sat. " * 60).encode("utf-16-le"))
        self.assertIn("holds NUL bytes", self.whisker("train", "language.yaml", code=3).stderr)
        rows = "".join(f"{i},{i % 7}\n" for i in range(60))
        (self.folder / "series.csv").write_bytes(f'month,"{VALID}"\n{rows}'.encode())
        (self.folder / "series.yaml").write_text(SERIES)
        self.says("train", "series.yaml", "name=series")
        shutil.copy(self.folder / "series.csv", self.folder / f"{BROKEN}.csv")
        for form in ([], ["--json"], ["--jsonl"]):
            self.says("classify", "runs/series/best.safetensors", f"{BROKEN}.csv", *form, shows="x")
        self.says("data", "stats", "series.yaml")
        self.says("train", "series.yaml", f'data.series.columns=["{VALID.encode("unicode_escape").decode()}"]')

    def test_weights(self):
        content = (self.folder / self.weights).read_bytes()
        length = struct.unpack("<Q", content[:8])[0]

        def weights(change):
            header = json.loads(content[8:8 + length])
            change(header)
            text = json.dumps(header).encode()
            (self.folder / "h.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:])

        def rename(header):
            header[VALID] = header.pop(next(name for name in header if name.endswith("weight")))

        def metadata(key, value):
            return lambda header: header["__metadata__"].update({key: value})

        config = json.loads(content[8:8 + length])["__metadata__"]["config"]
        for change, code in ((rename, 4), (metadata("classes", json.dumps(["a" + VALID, "b" + VALID])), 0),
                             (metadata("classes", VALID), 4), (metadata("preprocess", json.dumps({VALID: 1})), 4),
                             (metadata("config", f"{json.dumps(VALID)}: 1\n"), 4), (metadata("arch", VALID), 0),
                             (metadata("config", config.replace("batch_norm", json.dumps(VALID))), 4)):
            weights(change)
            for command in (["classify", "h.safetensors", "val"], ["evaluate", "h.safetensors", "val"],
                            ["classify", "h.safetensors", "val", "--json"],
                            ["train", "c.yaml", *self.data, "--init", "h.safetensors"],
                            ["generate", "h.safetensors", "--prompt", "x"]):
                self.says(*command)

    def test_a_terminal_is_steered_by_the_program_alone(self):
        master, terminal = pty.openpty()
        process = self.start("train", "c.yaml", "data.train=hostile", "data.val=hostile", "name=terminal", stderr=terminal)
        os.close(terminal)
        shown = read_all(master)
        process.communicate(timeout=60)
        os.close(master)
        self.assertEqual(process.returncode, 0)
        self.assertIn("\\u009b", shown)
        self.check(re.sub(r"\r\n|\r\x1b\[K", "\n", shown), "terminal")


if __name__ == "__main__":
    unittest.main()
