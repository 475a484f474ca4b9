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
        for text in ("<h1>Data odd</h1>", ">Class sizes</h2>", ">Image sizes</h2>", ">Examples of each class</h2>",
                     "Same file, under different labels", "c1/copy.png", ">c0/broken.png</th>", "&lt;i&gt;.txt",
                     "16 to 31", '<td class="number">3</td>'):
            self.assertIn(text, page)
        self.assertGreater(page.count("data:image/jpeg;base64,"), 10)
        again = self.whisker("data", "check", data, "--report", "data.html", code=3)
        self.assertIn("replaced a page of data check --report", again.stderr)
        self.assertNotIn(">validation</th>", self.check_page("data.html"))
        (self.folder / "mine.html").write_text("mine")
        for file in ("mine.html", str(data / "c0/page.html")):
            self.whisker("data", "check", data, "--report", file, code=2)
        self.assertEqual((self.folder / "mine.html").read_text(), "mine")

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
        self.assertIn(f"{len(rows)} of 60 images may have a wrong label: another class is more probable by a linear head trained on "
                      "the other folds of 5 (--seed 0), and fewer than half of the 10 nearest neighbours", done.stderr)
        page = self.check_page("labels.html")
        self.assertIn("c1/x011.png", page)
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
