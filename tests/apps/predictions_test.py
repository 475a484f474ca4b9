"""What `whisker evaluate` writes about each example, and reads back: images, texts, rows."""

import csv
import json
import re
import shutil
import unittest

from harness import ProgramTest, write_classes

WORDS = """device: cpu
name: words
data: {kind: text, train: data/words.csv, val_split: 0.2, label_column: label, text: {level: words, text_column: text}}
model: {layers: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {gru: 4}], head: [{dense: {units: classes}}]}
train: {epochs: 1, batch_size: 8}
"""
VALUES = """device: cpu
name: values
data: {kind: rows, train: data/values.csv, val_split: 0.2, label_column: label}
model: {layers: [{gru: 4}], head: [{dense: {units: classes}}]}
train: {epochs: 1, batch_size: 8}
"""


class Predictions(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().train("base", "train.epochs=2")
        data = cls.folder / "data"
        data.mkdir()
        words = ("good", "bad")
        text = "<b>&\n=1+1" + " and so on" * 100  # of every fourth row
        (data / "words.csv").write_text("label,text\n" + "".join(
            f'{words[i % 2]},"{words[i % 3 % 2]} {i} {text if i % 4 == 3 else ""}"\n' for i in range(40)))
        (data / "values.csv").write_text("label,first,second,third\n" + "".join(
            f"{i % 2},{i / 8},{i % 5},{-i}\n" for i in range(40)))
        (cls.folder / "words.yaml").write_text(WORDS)
        (cls.folder / "values.yaml").write_text(VALUES)
        for name in ("words", "values"):
            cls().whisker("train", f"{name}.yaml")

    def runTest(self):
        """Lets setUpClass make an instance."""

    def measured(self, *arguments, code=0, **options):
        done = self.whisker("evaluate", *arguments, "--json", code=code, **options)
        return json.loads(done.stdout), done.stderr

    def rows(self, file):
        with open(self.folder / file, newline="") as lines:
            return list(csv.DictReader(lines))

    def test_predictions_read_back(self):
        """Of images, texts and rows, from a folder beside the data and from another working folder."""
        for run, data, examples in (("base", "val", 10), ("words", "data/words.csv", 40), ("values", "data/values.csv", 40)):
            with self.subTest(run):
                weights = f"runs/{run}/best.safetensors"
                file = f"out/{run}.csv"
                (self.folder / "out").mkdir(exist_ok=True)
                whole, _ = self.measured(weights, data, "--predictions", file)
                rows = self.rows(file)
                self.assertEqual(len(rows), examples)
                self.assertEqual(list(rows[0])[:4], ["path", "label", "predicted", "loss"])
                self.assertAlmostEqual(sum(float(row["loss"]) for row in rows) / examples, whole["loss"], places=5)
                self.assertEqual(sum(row["label"] == row["predicted"] for row in rows) / examples, whole["accuracy"])
                again, said = self.measured(weights, "--csv", file)
                self.assertEqual(again, whole)
                self.assertIn(f"{file}: the labels are those of column 2 ('label'); not used: 'predicted', 'loss', "
                              "'probability ", said)
                if run != "base":
                    self.assertIn(f"{file}: its paths are lines of {data}, which is read", said)
                    self.assertEqual(rows[0]["path"], f"../{data}:2")
                    self.assertEqual(self.measured(weights, data, "--csv", file)[0], whole)
                self.assertEqual(self.measured(f"../{weights}", "--csv", f"{run}.csv", cwd=self.folder / "out")[0], whole)

    def test_a_list_that_was_edited(self):
        weights = "runs/words/best.safetensors"
        self.measured(weights, "data/words.csv", "--predictions", "all.csv")
        lines = (self.folder / "all.csv").read_text().splitlines()
        lines[1] = re.sub(",(good|bad),", lambda label: ",bad," if label[1] == "good" else ",good,", lines[1], count=1)
        (self.folder / "some.csv").write_text("\n".join([*lines[:11], "data/words.csv:99," + lines[1].partition(",")[2]]) + "\n")
        found, said = self.measured(weights, "--csv", "some.csv", code=3)
        self.assertEqual(found["texts"], 10)
        self.assertEqual([bad["error"] for bad in found["unreadable"]], ["there is no example 'data/words.csv:99'"])
        self.assertIn("some.csv: 30 of the 40 examples are not listed", said)
        self.assertIn("some.csv: 1 of its 10 labels differs from that in the data, and counts instead", said)

    def test_pages_of_texts_and_rows(self):
        for run, data, shown in (("words", "data/words.csv", "&lt;b&gt;&amp;\n=1+1 and so on"),
                                 ("values", "data/values.csv", "first 0.125, second 1, third -1</p>")):
            with self.subTest(run):
                page = self.folder / f"{run}.html"
                self.whisker("evaluate", f"runs/{run}/best.safetensors", data, "--worst", "40", "--out", page)
                text = page.read_text()
                examples = "texts" if run == "words" else "rows"
                self.assertRegex(text, f"<h1>Evaluation of best.safetensors</h1>[^$]*[0-9]+ of 40 {examples} (are|is) classified wrong")
                self.assertIn(f"The 40 {examples} of the largest loss", text)
                self.assertIn(shown, text)
                self.assertIn(f'<p class="path">{run}.csv:2</p>', text)
                self.assertNotIn("<b>", text)
                self.assertNotIn("<img", text)
                self.assertIn(f'<td class="value">{run}/best.safetensors</td>', text)
                if run == "words":
                    self.assertRegex(text, r'<p class="problem">\d+ of these 40 texts trained the weights: the figures do not')
                    self.assertRegex(text, r"\[… 3[0-9]{2} characters …\]")
                again = self.whisker("evaluate", f"runs/{run}/best.safetensors", data, "--worst", "40", "--out", page)
                self.assertIn("replaced a page of evaluate --report", again.stderr)
        self.measured("runs/words/best.safetensors", "--split", "val", "--predictions", "val.csv", "--worst", "2", "--out",
                      "val.html")
        texts = (self.folder / "data/words.csv").read_text()
        self.assertEqual(len(self.rows("val.csv")), 8)
        for row in self.rows("val.csv"):
            line = texts.split("\n" + row["label"] + ",")  # the label stands in the line that the path names
            self.assertGreater(len(line), 1)
            number = int(row["path"].rpartition(":")[2])
            self.assertTrue(texts.splitlines()[number - 1].startswith(row["label"] + ","), row)

    def test_files_of_class_folders(self):
        folder = self.folder / "reviews"
        for i in range(3):
            for label in ("good", "bad"):
                (folder / label).mkdir(parents=True, exist_ok=True)
                (folder / label / f"{i}.txt").write_text(f"{label} {i}")
        weights = "runs/words/best.safetensors"
        whole, _ = self.measured(weights, "reviews", "--predictions", "folders.csv")
        self.assertEqual(self.rows("folders.csv")[0]["path"], "reviews/bad/0.txt")
        self.assertEqual(self.measured(weights, "reviews", "--csv", "folders.csv")[0], whole)
        refused = self.whisker("evaluate", weights, "--csv", "folders.csv", code=2)
        self.assertIn("Name the file or folder that its texts are in after WEIGHTS", refused.stderr)
        (self.folder / "classes").mkdir()
        (self.folder / "classes/good.txt").write_text("good 1\nfine 2\n")
        whole, _ = self.measured(weights, "classes", "--predictions", "lines.csv")
        self.assertEqual(self.measured(weights, "classes", "--csv", "lines.csv")[0], whole)
        refused = self.whisker("evaluate", weights, "--csv", "lines.csv", code=2)
        self.assertIn("'classes/good.txt' may be a table, or a file named after its class", refused.stderr)
        refused = self.whisker("evaluate", weights, "reviews", "--predictions", "reviews/good/p.csv", code=2)
        self.assertIn("lies in the folder", refused.stderr)
        refused = self.whisker("evaluate", weights, "data/words.csv", "--predictions", "data/words.csv", code=2)
        self.assertIn("is an input of this command", refused.stderr)

    def test_a_mirror_image_is_averaged(self):
        """evaluate --tta is the accuracy and the probabilities of classify --tta."""
        weights = "runs/base/best.safetensors"
        write_classes(self.folder / "more", 4, 700)
        plain, _ = self.measured(weights, "more", "--predictions", "plain.csv")
        both, _ = self.measured(weights, "more", "--tta", "--predictions", "tta.csv")
        rows = self.rows("tta.csv")
        lines = self.whisker("classify", weights, "more", "--tta", "--jsonl", "--device", "cpu").stdout.splitlines()
        expected = {line["path"]: {one["class"]: one["probability"] for one in line["predictions"]}
                    for line in map(json.loads, lines)}
        for row in rows:
            for name, probability in expected[row["path"]].items():
                self.assertAlmostEqual(float(row[f"probability {name}"]), probability, places=5)
        self.assertAlmostEqual(sum(float(row["loss"]) for row in rows) / len(rows), both["loss"], places=5)
        self.assertNotEqual([row["loss"] for row in rows], [row["loss"] for row in self.rows("plain.csv")])
        self.assertNotEqual(both["loss"], plain["loss"])

    def test_what_is_refused(self):
        series = WORDS.replace("words", "series").split("data:")[0] + (
            "data: {kind: series, train: data/steps.csv, val_split: 0.2, series: {columns: [1], window: 8}}\n"
            "model: {layers: [{gru: 4}, {dense: {units: 1}}]}\ntrain: {epochs: 1}\n")
        (self.folder / "series.yaml").write_text(series)
        (self.folder / "data/steps.csv").write_text("".join(f"{i % 7},{i}\n" for i in range(80)))
        self.whisker("train", "series.yaml")
        done = self.whisker("evaluate", "runs/series/best.safetensors", "data/steps.csv", "--report", "s.html")
        page = (self.folder / "s.html").read_text()
        for says in ("Forecast and truth", "The forecasts of ", "and this network was trained on windows"):
            self.assertIn(says, page)
        self.assertNotIn("Confusion", page)
        (self.folder / "verse.txt").write_text("the cat sat on the mat and the dog ran off. " * 40)
        (self.folder / "verse.yaml").write_text(
            "device: cpu\nname: verse\ndata: {kind: language, train: verse.txt, val_split: 0.2, text: {steps: 8}}\n"
            "model:\n  layers: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {gru: {units: 4, return_sequences: "
            "true}}, {dense: {units: classes}}]\ntrain: {epochs: 1, batch_size: 4}\n")
        self.whisker("train", "verse.yaml")
        self.whisker("evaluate", "runs/verse/best.safetensors", "verse.txt", "--report", "v.html")
        page = (self.folder / "v.html").read_text()
        for says in ("perplexity is ", "and this network was trained on tokens"):
            self.assertIn(says, page)
        for run, data, option, says in (
                ("series", "data/steps.csv", ["--predictions", "p.csv"], "got a network trained on windows"),
                ("series", "data/steps.csv", ["--worst", "2", "--report", "p.html"], "got a network trained on windows"),
                ("base", "val", ["--worst", "2"], "evaluate: --worst N goes with --report FILE.html."),
                ("base", "val", ["--label-column", "1"], "--label-column is for texts and rows, got"),
                ("base", "val", ["--header", "true"], "--header is for texts, rows and series, got"),
                ("base", "val", ["--null"], "evaluate: --null is for names or texts on standard input, '-'."),
                ("values", "data/values.csv", ["--text-column", "2"], "--text-column is for texts, got"),
                ("words", "--split=val", ["--label-column", "1"], "--split reads them as the run did"),
                ("words", "data/words.csv", ["--label-pattern", "{label}_*"], "--label-pattern is for images, got"),
                ("words", "data/words.csv", ["--tta"], "--tta is for images, got a network trained on texts")):
            done = self.whisker("evaluate", f"runs/{run}/best.safetensors", data, *option, code=2)
            self.assertIn(says, done.stderr)
        self.assertFalse((self.folder / "p.csv").exists())
        for run, inputs, says in (
                ("series", ["data/steps.csv", "--top", "2"], "--top is for images, texts and rows, which have classes"),
                ("series", ["data/steps.csv", "--threshold", "0.5"], "--threshold is for images, texts and rows"),
                ("series", ["data/steps.csv", "--classes", "imagenet"], "--classes: expected none, as the network"),
                ("words", ["--text", "a", "--label-column", "1"], "--label-column is for rows, got a network"),
                ("words", ["--text", "a", "--null"], "--null is for names or texts on standard input"),
                ("base", ["val", "--text", "a"], "--text is for texts, got a network trained on images")):
            done = self.whisker("classify", f"runs/{run}/best.safetensors", *inputs, code=2)
            self.assertIn(says, done.stderr)
        for option, says in (("--label-pattern", "data check: --label-pattern is for images, got sequences."),
                             ("--val", "data check: --val is for a folder; a configuration has data.val.")):
            self.assertIn(says, self.whisker("data", "check", "words.yaml", option, "x", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
