"""`whisker data check --report` and `whisker data label-issues`: pages and lists about a data set."""

import csv
import io
import json
import re
import shutil
import unittest

from harness import ProgramTest, write_classes


class DataReports(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().train("base", "train.epochs=2")

    def runTest(self):
        """Lets setUpClass make an instance."""

    def check_page(self, file):
        page = (self.folder / file).read_text()
        self.assertNotIn("<script", page)
        self.assertFalse(re.findall(r'(?:src|href)="(?!data:|#)', page))
        self.assertNotIn(str(self.folder), page)
        self.assertLess(len(page), 3_000_000)
        self.assertRegex(page, r" on 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d\.</p>")
        return page

    def test_the_page_of_a_check(self):
        data = self.folder / "odd"
        write_classes(data, 8)
        shutil.copy(data / "c0/000.png", data / "c1/copy.png")
        (data / "c0/broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        (data / "c0/<i>.txt").write_text("notes")
        write_classes(self.folder / "measured", 3, first=800)
        done = self.whisker("data", "check", data, "--val", "measured", "--report", "data.html", code=3)
        self.assertIn("bad        ", done.stdout)
        page = self.check_page("data.html")
        for text in ("<h1>Data odd</h1>", "Validation is measured.", "Checked on 20", ">Class sizes</h2>", ">Image sizes</h2>", ">Examples of each class</h2>",
                     "Same file, under different labels", "c1/copy.png", ">c0/broken.png</th>", "&lt;i&gt;.txt",
                     "16 to 31", '<td class="number">3</td>'):
            self.assertIn(text, page)
        self.assertGreater(page.count("data:image/jpeg;base64,"), 10)
        again = self.whisker("data", "check", data, "--report", "data.html", code=3)
        self.assertIn("replaced a page of data check --report", again.stderr)
        self.assertNotIn(">validation</th>", self.check_page("data.html"))
        write_classes(self.folder / "split/train", 4)
        write_classes(self.folder / "split/test", 2, first=40)
        shutil.copy(self.folder / "split/train/c0/000.png", self.folder / "split/test/c0/copy.png")
        page = self.check("split.html", "split")
        for text in ("Test is test. Training would hold back a fifth of train for validation (data.val, data.val_split).",
                     ">test</th>", "1 across training and test, ", "test: c0/copy.png", "Same file, in training and test"):
            self.assertIn(text, page)
        (self.folder / "mine.html").write_text("mine")
        for file in ("mine.html", str(data / "c0/page.html")):
            self.whisker("data", "check", data, "--report", file, code=2)
        self.assertEqual((self.folder / "mine.html").read_text(), "mine")

    def check(self, name, *data, code=0):
        self.whisker("data", "check", *data, "--report", name, code=code)
        return self.check_page(name)

    def test_data_without_a_name_are_refused(self):
        (self.folder / "none.yaml").write_text("data: {kind: text}\nmodel: [{dense: classes}]\n")
        said = self.whisker("data", "check", "none.yaml", "--report", "none.html", code=2).stderr
        self.assertIn("data.train", said)
        self.assertFalse((self.folder / "none.html").exists())

    def test_the_page_of_texts(self):
        rows = [f"{('ham', 'spam<b>')[i % 2]}\tsee <i>you</i> number {'x ' * (i % 7)}{i}\n" for i in range(40)]
        rows[6], rows[9] = rows[4], rows[4].replace("ham", "spam<b>")
        (self.folder / "t.tsv").write_text("".join(rows) + "ham\n")
        (self.folder / "t.yaml").write_text("data: {kind: text, train: t.tsv, val_split: 0.25, text: {level: words}}\n"
                                            "model: [{embedding: {input_dim: vocabulary, output_dim: 4}}, "
                                            "{gru: {units: 4}}, {dense: {units: classes}}]\n")
        page = self.check("t.html", "t.yaml", code=3)
        for text in ("<h1>Data t.tsv</h1>", ">Class sizes</h2>", "<td>spam&lt;b&gt;</td>", ">Lengths</h2>",
                     ">tokens</th>", "% of the validation tokens are unknown", "see &lt;i&gt;you&lt;/i&gt; number",
                     '<li class="card"><p class="text">',  # neither right nor wrong
                     '<p class="problem">Warning: 2 of the 10 validation texts are training texts, too',
                     "Validation is 0.25 of each class (data.val_split), chosen by seed=1.",
                     "1 group of the same content: ", ", 1 across classes; ", ">t.tsv:41</th>", "1 row is skipped"):
            self.assertIn(text, page)
        self.assertEqual(page.count("t.tsv:10 "), 1)  # of the copies
        self.assertIn("replaced a page of data check --report",
                      self.whisker("data", "check", "t.yaml", "--report", "t.html", code=3).stderr)
        for file in ("t.tsv", "t.yaml"):
            self.whisker("data", "check", "t.yaml", "--report", file, "--force", code=2)
        texts = self.folder / "texts"
        for label in ("a", "b"):
            (texts / label).mkdir(parents=True)
            for i in range(8):
                (texts / label / f"{i}.txt").write_text(f"{label} text {i}")
        self.assertIn("a text ", self.check("folder.html", "texts"))
        self.whisker("data", "check", "texts", "--report", "texts/page.html", code=2)

    def test_the_page_of_rows(self):
        rows = "".join(f"{'ab'[i % 2]},{i},{i * 1000}\n" for i in range(30))
        (self.folder / "r.csv").write_text("kind,size,weight\n" + rows + "a,7,7000\nb,oops,3\n")
        (self.folder / "r.yaml").write_text("data: {kind: rows, train: r.csv, val_split: 0.2}\n"
                                            "model: [{gru: {units: 4}}, {dense: {units: classes}}]\n")
        page = self.check("r.html", "r.yaml", code=3)
        self.assertRegex(page, r"<td>weight</td><td>training</td><td class=.number.>\d\d</td><td class=.number.>0</td>"
                               r"<td class=.number.>\d+</td>")
        for text in ("<td>size</td><td>validation</td>", ">r.csv:33</th>", "1 group of the same content: ", "1 across classes",
                     "All training rows have 2 steps."):
            self.assertIn(text, page)
        copies = page[page.rindex(">Copies<"):page.rindex(">Odd rows")]
        self.assertEqual(sorted(re.findall(r"r\.csv:(\d+) ", copies)), ["32", "9"])

        (self.folder / "r2.csv").write_text("".join(
            f"{'ab'[i % 2]}," + ",".join(str(i + j % 5) for j in range(30)) + "\n" for i in range(20)))
        page = self.check("r2.html", "r.yaml", "data.train=r2.csv")
        self.assertEqual(page.count('<svg xmlns="http://www.w3.org/2000/svg" class="drawing" width="400"'), 2)  # a class each

    def test_the_page_of_a_series_and_of_plain_text(self):
        rows = "".join(f"{i},{i % 7 if i != 20 else ''}\n" for i in range(80))
        (self.folder / "s.csv").write_text("load,price\n" + rows)
        (self.folder / "s.yaml").write_text(
            "data: {kind: series, train: s.csv, val_split: 0.25, series: {columns: [load, price], window: 4}}\n"
            "model: [{gru: {units: 4}}, {dense: {units: 2}}]\n")
        page = self.check("s.html", "s.yaml", code=3)
        for text in (">Over time</h2>", ">price</text>", ">s.csv:22</th>", ">validation</text>",
                     "Validation begins at row 61 of 80: the last 0.25 of the rows (data.val_split).",
                     '<td>price</td><td>training</td><td class="number">59</td><td class="number">1</td>',
                     '<td>load</td><td>validation</td><td class="number">20</td><td class="number">0</td><td class="number">60</td>'):
            self.assertIn(text, page)
        shutil.copy(self.folder / "s.csv", self.folder / "later.csv")
        page = self.check("s2.html", "s.yaml", "data.val=later.csv", "data.val_split=0", code=3)
        self.assertIn("Validation is data.val, later.csv.", page)
        self.assertNotIn(">validation</text>", page)
        self.assertNotIn("Class sizes", page)
        (self.folder / "plain.txt").write_text("to be or not to be, that is the question. " * 60)
        (self.folder / "l.yaml").write_text(
            "data: {kind: language, train: plain.txt, val_split: 0.2, text: {steps: 16}}\n"
            "model: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {gru: {units: 8, return_sequences: true}}, "
            "{dense: {units: classes}}]\ntrain: {batch_size: 4}\n")
        page = self.check("l.html", "l.yaml")
        self.assertIn("to be or not to be", page)
        self.assertIn("Validation is the last 0.2 of the data (data.val_split).", page)

    def test_large_cells_and_names_are_cut(self):
        long = "x<" * 200_000
        (self.folder / "r3.csv").write_text(f"kind,{long},b\n" + f"a,1,2\nb{long},3,4\n" * 10 + f"a,5,{long}\n")
        (self.folder / "r3.yaml").write_text("data: {kind: rows, train: r3.csv, val_split: 0.2}\n"
                                             "model: [{gru: {units: 4}}, {dense: {units: classes}}]\n")
        page = self.check("r3.html", "r3.yaml", code=3)
        self.assertLess(len(page), 100_000)
        for text in ("[… 399,000 characters …]", "expected a number in column 3, got &#39;x&lt;x&lt;", ">r3.csv:22</th>"):
            self.assertIn(text, page)
        (self.folder / "t3.tsv").write_text("".join(f"{'ab'[i % 2]}\tthe same\n" for i in range(50)))
        (self.folder / "t3.yaml").write_text((self.folder / "r3.yaml").read_text().replace("rows", "text").replace("r3.csv", "t3.tsv"))
        page = self.check("t3.html", "t3.yaml", code=None)
        copies = page[page.rindex(">Copies<"):page.rindex(">Odd rows")]
        self.assertEqual(copies.count("the same</p>"), 6)  # of both parts and classes, and how many more
        self.assertEqual({(val, label) for val, label in re.findall(r"(validation: )?t3\.tsv:\d+ · (\w)", copies)},
                         {("", "a"), ("", "b"), ("validation: ", "a"), ("validation: ", "b")})
        self.assertIn("and 44 more", copies)
        (self.folder / "t3.tsv").write_text("".join(f"{'ab'[i % 2]}\ttext number {i % 70}\n" for i in range(140)))
        self.assertIn(">The first 60 of 70 groups.</p>", self.check("t3.html", "t3.yaml", code=None))

    def test_flipped_labels_are_listed(self):
        data = self.folder / "flipped"
        write_classes(data, 30)
        for number in ("003", "011"):
            (data / f"c0/{number}.png").rename(data / f"c1/x{number}.png")
        (data / "rare").mkdir()
        shutil.copy(data / "c0/000.png", data / "rare/000.png")
        command = ("data", "label-issues", "flipped", "--weights", "runs/base/best.safetensors")
        done = self.whisker(*command, "-o", "labels.html")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        flipped = {"flipped/c1/x003.png", "flipped/c1/x011.png"}
        self.assertLessEqual(flipped, {row["path"] for row in rows})
        self.assertLessEqual(len(rows), 4)  # the network is hardly trained
        for row in rows:
            if row["path"] in flipped:
                self.assertEqual((row["label"], row["suggested"]), ("c1", "c0"))
            self.assertLess(float(row["label_probability"]), float(row["suggested_probability"]))
        self.assertIn("1 image of 1 class with fewer than 5 images, one for each fold, is not judged: 'rare'", done.stderr)
        self.assertIn(f"{len(rows)} of 60 images may have a wrong label: another class is at least 2 times as probable by a linear head "
                      "trained on the other folds of 5 (--seed 0), and fewer than half of the 10 nearest neighbours", done.stderr)
        page = self.check_page("labels.html")
        self.assertIn("c1/x011.png", page)
        self.assertIn("Data flipped; weights base/best.safetensors; judged on 20", page)
        self.assertEqual(page.count("<img"), len(rows))
        found = json.loads(self.whisker(*command, "--json").stdout)
        self.assertEqual([issue["path"] for issue in found["issues"]], [row["path"] for row in rows])
        self.assertEqual((found["images"], found["folds"], found["neighbours"], found["seed"]), (60, 5, 10, 0))
        shutil.rmtree(data / "rare")
        for image in (data / "c1").iterdir():
            if image.name not in ("000.png", "001.png"):
                image.unlink()
        done = self.whisker(*command, code=3)
        self.assertIn("data label-issues: expected two classes of 5 images or more, one for each fold, got 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
