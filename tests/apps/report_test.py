"""report.html: what a run writes, and `whisker report` draws again."""

import os
import re
import resource
import shutil

from harness import ProgramTest


class Reports(ProgramTest):
    def test_a_run_writes_its_report(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=shown", env={**os.environ, "TZ": "XXX-05:30"})
        self.assertTrue(done.stderr.endswith("report: runs/shown/report.html\n"), done.stderr)
        run = self.folder / "runs/shown"
        page = (run / "report.html").read_text()
        for text in (" of 10 validation images in 2 classes are classified right, with the weights of epoch ",
                     "Finished after ", "(95 % interval: ", "The mean of F1 over the classes: 0.", "20  50.0 %", "whisker train --repeat runs/shown",
                     "Area under the ROC curve", ">parameters</th><td class=\"value\">258<", "<h2 id=\"time\">", ">train.batch_size</th><td class=\"value\">8<"):
            self.assertIn(text, page)
        self.assertIn("data:image/jpeg;base64,", page)
        self.assertIn("Training, augmented", page)
        self.assertNotIn(str(self.folder), page)
        self.assertRegex(page, r"The run began on 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \+05:30\.")
        # Drawn again from the folder alone, wherever it lies.
        shutil.copytree(run, self.folder / "elsewhere/shown")
        (self.folder / "elsewhere/shown/report.html").unlink()
        self.assertEqual(self.whisker("report", "elsewhere/shown").stdout, "elsewhere/shown/report.html\n")
        self.assertEqual((self.folder / "elsewhere/shown/report.html").read_text(), page)

    def test_a_run_that_diverges_says_so_in_its_report(self):
        run = self.train("diverges", "train.epochs=3", "optimizer.kind=sgd", "schedule.restart=1",
                         "schedule.restart_factor=1e30", code=7)
        page = (run / "report.html").read_text()
        self.assertIn("Error: training diverged at epoch ", page)
        self.assertNotIn("had not ended", page)

    def test_it_can_be_left_out(self):
        run = self.train("without", "train.report=false", "train.epochs=1")
        self.assertFalse((run / "report.html").exists())
        self.assertFalse((run / "examples.safetensors").exists())
        self.train_on(run, "train.report=true")
        self.assertTrue((run / "report.html").exists())

    def train_on(self, run, *overrides):
        return self.whisker("train", "--resume", str(run), "train.epochs=2", *overrides)

    def test_what_cannot_be_written_costs_one_line_and_not_the_run(self):
        run = self.train("edited", "train.epochs=1")
        page = run / "report.html"
        page.write_text(page.read_text() + "<p>my notes</p>\n")
        done = self.train_on(run)
        self.assertEqual(done.stderr.count("the report was not written: "), 1)
        self.assertIn("was edited", done.stderr)
        self.assertIn("my notes", page.read_text())
        self.assertIn("was edited", self.whisker("report", run, code=2).stderr)
        self.whisker("report", run, "--force")
        self.assertIn("Finished after", page.read_text())

        blocked = self.train("blocked", "train.epochs=1")
        (blocked / "examples.safetensors").unlink()
        (blocked / "examples.safetensors").mkdir()
        self.assertIn("without new examples", self.train_on(blocked).stderr)

        other = self.train("other", "train.epochs=1")  # its validation is of a run with other classes
        examples = other / "validation.safetensors"
        examples.write_bytes(examples.read_bytes().replace(b'\\"c0\\"', b'\\"x0\\"'))
        (other / "examples.safetensors").unlink()
        self.assertIn("its classes are not those of best.safetensors",
                      self.whisker("train", "--resume", str(other)).stderr)

    def test_a_full_disk_loses_the_report_and_not_the_run(self):
        whole = self.train("whole", "train.epochs=1")
        most = (whole / "report.html").stat().st_size - 1000  # of a file: stands for the full disk
        done = self.whisker("train", "c.yaml", *self.data, "name=full", "train.epochs=1",
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
        self.assertEqual(done.stderr.count("the report was not written: "), 1, done.stderr)
        self.assertTrue((self.folder / "runs/full/best.safetensors").exists())

    def test_runs_are_compared_by_the_content_of_their_images(self):
        one = self.train("one", "train.epochs=1")
        shutil.copytree(self.folder / "val", self.folder / "moved")
        for file in list((self.folder / "moved/c0").iterdir())[:2]:
            file.rename(file.with_name("other_" + file.name))
        (self.folder / "moved/c1/500.png").unlink()
        self.whisker("train", "c.yaml", "data.train=train", "data.val=moved", "name=two", "optimizer.lr=0.1",
                     "train.epochs=2")
        self.assertIn("add -o FILE.html", self.whisker("report", one, "runs/two", code=2).stderr)
        for _ in range(2):  # its own page is replaced
            self.whisker("report", one, "runs/two", "-o", "both.html")
        page = (self.folder / "both.html").read_text()
        self.assertIn("9 validation examples are in all runs, by their content and label", page)
        self.assertRegex(page, r'"sentence">On 9 validation examples that all runs have: one \d+\.\d % \([^;]*\) right; two \d')
        self.assertRegex(page, r'<th scope="row">optimizer.lr</th><td class="value">0.001</td><td class="value">0.1<')
        self.assertIn(">10</td>", page)
        self.assertIn(">9</td>", page)
        self.assertNotIn(str(self.folder), page)
        (self.folder / "both.html").write_text(page + " ")
        self.assertIn("was edited", self.whisker("report", one, "runs/two", "-o", "both.html", code=2).stderr)
        # Accuracies are compared, whatever chose the weights.
        by_loss = self.train("three", "train.epochs=1", "train.metric=loss")
        self.whisker("report", one, by_loss, "-o", "chosen.html")
        self.assertRegex((self.folder / "chosen.html").read_text(), r"<td>loss</td><td>\d+\.\d % \(")
        # Without the checkpoints nothing tells contents.
        shutil.rmtree(one / "last")
        self.whisker("report", one, "runs/two", "-o", "paths.html")
        self.assertIn("7 validation examples are in all runs, by their path (not all runs recorded contents)",
                      (self.folder / "paths.html").read_text())

    def compared(self, config, val, moved, *other):
        """The page of two runs of one configuration, validated on the lines `val` and `moved`."""
        for name, lines in (("val.csv", val), ("moved.csv", moved)):
            (self.folder / name).write_text("".join(lines))
        for name in ("val", "moved"):
            shutil.rmtree(self.folder / "runs" / name, ignore_errors=True)
            self.whisker("train", config, f"name={name}", f"data.val={name}.csv", *(other if name == "moved" else ()))
        self.whisker("report", "runs/val", "runs/moved", "-o", "compared.html", "--force")
        return (self.folder / "compared.html").read_text()

    def test_texts_rows_and_windows_are_compared_by_content(self):
        base = ("device: cpu\ntrain: {epochs: 1, batch_size: 8}\ndata: {train: val.csv, val: val.csv, kind: %s}\n"
                "model: [%s{gru: {units: 2}}, {dense: {units: %s}}]\n")
        embedding = "{embedding: {input_dim: vocabulary, output_dim: 2}}, "
        texts = [f"{'ab'[i % 2]},see {i} and {i * 7 % 5}\n" for i in range(30)]
        (self.folder / "base.yaml").write_text(base % ("text, text: {level: words}", embedding, "classes"))
        page = self.compared("base.yaml", texts, texts[:0:-1] + ["a,another\n"])
        self.assertIn("29 validation examples are in all runs, by their content and label", page)
        # Rows of two numbers occur more than once: each of the copies counts.
        rows = [f"{'ab'[i % 2]},{i % 3},{i % 4}\n" for i in range(36)]
        (self.folder / "base.yaml").write_text(base % ("rows, rows: {features: 2}", "", "classes"))
        page = self.compared("base.yaml", rows, ["b,9,9\n"] + rows[:-1])
        self.assertIn("35 validation examples are in all runs, by their content and label", page)
        # Windows of another length are the same where they forecast the same.
        series = [f"{i * i % 17}\n" for i in range(60)]
        (self.folder / "base.yaml").write_text(base % ("series, series: {columns: ['1'], window: 4}", "", 1))
        page = self.compared("base.yaml", series, series[:-1] + ["3\n"], "data.series.window=6")
        self.assertIn("53 validation windows are in all runs, by the values that they forecast", page)
        self.assertRegex(page, r"<td>mae \d\.\d+</td>")
        self.assertRegex(page, r"On 53 validation windows that all runs have: val mae \d\.\d+; moved mae \d")
        self.whisker("evaluate", "runs/val/best.safetensors", "val.csv", "--report", "forecast.html")
        forecast = (self.folder / "forecast.html").read_text()
        self.assertRegex(forecast, r"on average \(mae; rmse \d\.\d+\), the naive forecast \(the last value\) by \d")
        self.assertIn(">window</text>", forecast)
        page = self.compared("base.yaml", series, series, "data.series.horizon=2", "model=[{gru: {units: 2}}, {dense: {units: 2}}]")
        self.assertIn("or of forecasts of the same columns and steps", page)
        # A run of an older version recorded no contents.
        older = self.folder / "runs/val/validation.safetensors"
        older.write_bytes(older.read_bytes().replace(b'"contents"', b'"unknown_"'))
        self.whisker("report", "runs/val", "runs/val", "-o", "older.html")
        self.assertIn("Common windows are not known: not all runs recorded contents.",
                      (self.folder / "older.html").read_text())

    def test_a_model_card_is_renewed_until_somebody_edits_it(self):
        run = self.train("card", "train.epochs=1", "data.train=train")
        card = (run / "README.md").read_text()
        self.assertTrue(card.startswith("---\n# by whisker train"), card)
        for text in ("pipeline_tag: image-classification", "## Licence\n\n*To be filled in.*", "2 classes: c0, c1.",
                     "whisker classify runs/card/best.safetensors"):
            self.assertIn(text, card)
        self.train_on(run)
        self.assertNotEqual((run / "README.md").read_text(), card)
        (run / "README.md").write_text("# Mine\n")
        self.whisker("train", "--resume", run, "train.epochs=3")
        self.assertEqual((run / "README.md").read_text(), "# Mine\n")

    def test_mistaken_texts_have_the_words_that_weigh_most(self):
        rows = "".join(f"{('ham', 'spam')[i % 2]}\t{('see you', 'win cash')[(i + i // 9) % 2]} now {i}\n"
                       for i in range(60))
        (self.folder / "texts.tsv").write_text(rows)
        (self.folder / "t.yaml").write_text(
            "device: cpu\ndata: {kind: text, train: texts.tsv, val_split: 0.3, text: {level: words}}\n"
            "model: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {gru: {units: 4}}, {dense: {units: classes}}]\n"
            "train: {epochs: 3, batch_size: 8}\noptimizer: {lr: 0.05}\n")
        self.whisker("train", "t.yaml", "name=texts")
        page = (self.folder / "runs/texts/report.html").read_text()
        self.assertRegex(page, r"for \(\+\) and against \(−\) (ham|spam): <strong>\w+</strong> [+-]\d")
        self.assertRegex(page, r'<p class="text">(see you|win cash) now \d+</p>')
        # A comparison shows those on which the runs disagree.
        self.whisker("train", "t.yaml", "name=untrained", "optimizer.lr=1e-9")
        self.whisker("report", "runs/texts", "runs/untrained", "-o", "texts.html")
        self.assertRegex((self.folder / "texts.html").read_text(),
                         r'<td>(see you|win cash) now \d+<br>texts.tsv:\d+</td>')

    def test_mistaken_long_rows_are_drawn(self):
        rows = "".join(f"{'ab'[i % 2]}," + ",".join(str((i * j * 7) % 11) for j in range(700)) + "\n" for i in range(40))
        (self.folder / "long.csv").write_text(rows)
        (self.folder / "r.yaml").write_text(
            "device: cpu\ndata: {kind: rows, train: long.csv, val_split: 0.5, rows: {features: 2}}\n"
            "model: [{gru: {units: 2}}, {dense: {units: classes}}]\ntrain: {epochs: 1, batch_size: 8}\n")
        self.whisker("train", "r.yaml", "name=long", "optimizer.lr=1e-9")
        self.whisker("evaluate", "runs/long/best.safetensors", "--split", "val", "--report", "long.html")
        for page in (self.folder / "runs/long/report.html", self.folder / "long.html"):
            text = page.read_text()
            self.assertIn("A curve has the first value of each step, and at most 300 steps, evenly spread.", text)
            card = text[text.index('<li class="card wrong">'):]
            card = card[:card.index("</li>")]
            self.assertNotIn('<p class="text">', card)
            drawn, = re.findall(r'<polyline class="s0"[^>]* points="([^"]*)"', card)
            self.assertEqual(len(drawn.split()), 300)  # of 350 steps
        self.whisker("train", "r.yaml", "name=long2", "optimizer.lr=1e-9", "seed=2", "data.val=long.csv", "data.val_split=0")
        self.whisker("report", "runs/long", "runs/long2", "-o", "both.html", "--force")  # from the folders alone
        self.assertRegex((self.folder / "both.html").read_text(), r'<td><svg(.|\n)*?</svg>\n<br>long.csv:\d+</td>')

    def test_language_models_and_no_run(self):
        (self.folder / "plain.txt").write_text("to be or not to be, that is the question. " * 60)
        (self.folder / "l.yaml").write_text(
            "device: cpu\ndata: {kind: language, train: plain.txt, val_split: 0.2, text: {steps: 16}}\n"
            "model: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {gru: {units: 8, return_sequences: true}}, "
            "{dense: {units: classes}}]\ntrain: {epochs: 2, batch_size: 4}\n")
        self.whisker("train", "l.yaml", "name=language")
        page = (self.folder / "runs/language/report.html").read_text()
        self.assertIn(" bits per character, perplexity is ", page)
        self.assertIn("bits per character</text>", page)
        self.assertNotIn("Confusion matrix", page)
        self.assertIn("without config.yaml", self.whisker("report", "train", code=2).stderr)
        self.assertIn("nothing there", self.whisker("report", "nowhere", code=2).stderr)


if __name__ == "__main__":
    import unittest
    unittest.main()
