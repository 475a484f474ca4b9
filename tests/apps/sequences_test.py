"""Texts, rows and series that are unlike what a network was trained on.

    sequences_test.py [-v]          with $WHISKER naming the program
"""

import json
import math
import struct
import unittest

from harness import ProgramTest

CONFIGS = {
    "text": """device: cpu
data: {kind: text, train: t.csv, text: {level: words}}
model: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {gru: 4}, {dense: classes}]
train: {epochs: 1, batch_size: 8}
""",
    "language": """device: cpu
data: {kind: language, train: l.txt, text: {steps: 8}}
model: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {gru: {units: 4, return_sequences: true}}, {dense: classes}]
train: {epochs: 1, batch_size: 7}
""",
    "series": """device: cpu
data: {kind: series, train: s.csv, series: {columns: [v], window: 4}}
model: [{gru: 4}, {dense: 1}]
train: {epochs: 1, batch_size: 8}
""",
}


class Sequences(ProgramTest):
    """What is said of them, and their figures."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.folder
        (folder / "t.csv").write_text("label,text\n" + "pos,a good film\nneg,a bad film\n" * 20)
        (folder / "l.txt").write_text("the cat sat. a dog ran. " * 40)
        cls().series("s.csv", 0)
        for kind, config in CONFIGS.items():
            (folder / f"{kind}.yaml").write_text(config)
            cls().whisker("train", f"{kind}.yaml", f"name={kind}")

    def runTest(self):
        """Lets setUpClass make an instance."""

    def series(self, name, offset, scale=1.0, step=1):
        rows = [f"2023-01-{1 + i * step // 24:02} {i * step % 24:02}:00,{offset + scale * math.sin(i / 2):.9f}" for i in range(60)]
        (self.folder / name).write_text("\n".join(["time,v", *rows, ""]))

    def test_unknown_tokens_of_texts_are_counted(self):
        weights = "runs/text/best.safetensors"
        note = " of the {} tokens, such as 'zzz', are not in the vocabulary and are read as one unknown token\n"
        done = self.whisker("classify", weights, "--text", "a zzz qqq zzz", "--text", "a film", "--json")
        self.assertEqual([one["unknown_tokens"] for one in json.loads(done.stdout)["texts"]], [3, 0])
        self.assertEqual(done.stderr, "50.0 %" + note.format(6))
        self.assertEqual(self.whisker("classify", weights, "--text", "a film").stderr, "")
        done = self.whisker("generate", "runs/language/best.safetensors", "--prompt", "zzz", "--length", "2")
        self.assertIn("--prompt: 100.0 %" + note.format(3).replace("zzz", "z"), done.stderr)

    def test_a_language_model_is_read_as_its_training_read_it(self):
        weights = "runs/language/best.safetensors"
        stored = json.loads(self.metadata(weights)["metrics"])
        done = self.whisker("evaluate", weights, "--split", "val", "--json")
        self.assertEqual(json.loads(done.stdout)["loss"], stored["loss"])
        self.assertIn("the text is read as 7 rows, as in training: --batch-size decides otherwise", done.stderr)
        self.assertIn("validation: the last 2 of 192 tokens are not read, as the 7 rows", done.stderr)
        other = self.whisker("evaluate", weights, "--split", "val", "--json", "--batch-size", "3")
        self.assertNotEqual(json.loads(other.stdout)["loss"], stored["loss"])
        self.assertNotIn("is read as", other.stderr)

    def test_forecasts_have_the_digits_that_differ(self):
        for name, offset, scale in (("large", 1e9, 10.0), ("small", 1e-4, 1e-5)):
            self.series("scaled.csv", offset, scale)
            run = self.whisker("train", "series.yaml", "data.train=scaled.csv", f"name={name}")
            self.assertNotIn("mae 0.0000", run.stderr)
            self.assertIn("naive forecast (the last value): mae", run.stderr)
            arguments = ("classify", f"runs/{name}/best.safetensors", "scaled.csv")
            shown = float(self.whisker(*arguments).stdout.split()[-1])
            exact = json.loads(self.whisker(*arguments, "--json").stdout)["forecasts"][0]["values"][0]
            self.assertLess(abs(shown - exact), scale / 100)

    def test_errors_beyond_all_bounds_are_in_the_page(self):
        self.series("logs.csv", 300)
        self.whisker("train", "series.yaml", "data.train=logs.csv", "data.series.log=true", "name=logs")
        weights = self.folder / "runs/logs/best.safetensors"
        bias = self.safetensors(weights)[1]["dense.bias"]
        content = weights.read_bytes()
        self.assertEqual(content.count(bias), 1)
        weights.write_bytes(content.replace(bias, struct.pack("<f", 1e7)))
        done = self.whisker("evaluate", weights, "logs.csv", "--report", "logs.html")
        self.assertIn("mae infinite", done.stdout)
        self.assertIn("infinite", (self.folder / "logs.html").read_text())

    def test_other_series_are_told(self):
        weights = "runs/series/best.safetensors"
        self.series("slow.csv", 300, 1, 2)
        for command in ("classify", "evaluate"):
            said = self.whisker(command, weights, "slow.csv").stderr
            self.assertIn("slow.csv: rows are 2 h apart, in the training data 1 h: a network takes them for the same", said)
            self.assertIn("slow.csv: unlike the training data, as in other units: column 'v' with mean 300", said)
        self.assertEqual(self.whisker("classify", weights, "s.csv").stderr, "")


if __name__ == "__main__":
    unittest.main()
