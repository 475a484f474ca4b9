"""classify with - and with pipes: every line is answered as it comes.

    standard_input_test.py [-v]          with $WHISKER naming the program
"""

import gzip
import json
import os
import pathlib
import select
import subprocess
import unittest

from harness import ProgramTest

TEXT_CONFIG = """device: cpu
data: {kind: text, train: words/train, val: words/val}
model:
  layers: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {lstm: {units: 4}}]
  head: [{dense: {units: classes}}]
train: {epochs: 1}
"""


class StandardInput(ProgramTest):
    """Images, texts, rows and lists of them through pipes."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().train("base", "train.epochs=2")
        cls.weights = "runs/base/best.safetensors"

    def runTest(self):
        """Lets setUpClass make an instance."""

    def conversation(self, weights, *options):
        process = self.start("classify", weights, *options, stdin=subprocess.PIPE)
        self.addCleanup(lambda: process.returncode is None and (process.kill(), process.communicate()))
        return process

    def answer(self, stream):
        """The next line, while the program waits for more. Past the stream's buffer, which select does not see."""
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([stream], [], [], 60)[0]:
                self.fail("no answer within 60 s")
            byte = os.read(stream.fileno(), 1)
            self.assertTrue(byte, "the program has ended")
            line += byte
        return line.decode()

    def say(self, process, text):
        process.stdin.write(text)
        process.stdin.flush()

    def finish(self, process, code):
        """Ends its input; what it still says."""
        rest, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, errors)
        return rest

    def test_each_image_is_answered_as_it_comes(self):
        alone = {name: self.whisker("classify", self.weights, name).stdout
                 for name in ("val/c0/500.png", "val/c1/501.png")}
        process = self.conversation(self.weights, "-")
        for name in (*alone, *alone):
            self.say(process, name + "\n")
            self.assertEqual(self.answer(process.stdout), alone[name])
        self.say(process, "missing.png\n")
        self.assertIn("missing.png", self.answer(process.stderr))
        self.say(process, "val/c0/500")  # no line yet
        self.say(process, ".png\n\nval/c1/501.png\r\n")
        self.assertEqual([self.answer(process.stdout) for _ in alone], list(alone.values()))
        self.assertIn("'': the input is empty", self.answer(process.stderr))
        self.say(process, "val/c1/501.png")  # the last line need not end
        self.assertEqual(self.finish(process, 3), alone["val/c1/501.png"])

    def test_lines_of_json_folders_and_words_beside_it(self):
        process = self.conversation(self.weights, "val/c1/500.png", "-", "val/c1/501.png", "--jsonl")
        self.assertEqual(json.loads(self.answer(process.stdout))["path"], "val/c1/500.png")
        self.say(process, "val/c0\n")
        for i in range(500, 505):
            self.assertEqual(json.loads(self.answer(process.stdout))["path"], f"val/c0/{i}.png")
        self.assertEqual(json.loads(self.finish(process, 0))["path"], "val/c1/501.png")

    def test_an_empty_line_is_answered(self):
        process = self.conversation(self.weights, "-", "--jsonl")
        for line, key in (("\n", "input"), ("val/c0/500.png\n", "path"), ("\r\n", "input")):
            self.say(process, line)
            answer = json.loads(self.answer(process.stdout))
            self.assertEqual(answer.get("error"), "the input is empty" if key == "input" else None)
            self.assertEqual(answer[key], line.strip())
        self.assertEqual(self.finish(process, 3), "")

    def test_names_end_with_nul(self):
        (self.folder / "odd").mkdir()
        odd = "odd/two\nlines .png"
        (self.folder / odd).write_bytes((self.folder / "val/c0/500.png").read_bytes())
        refused = self.whisker("classify", self.weights, "-", input=f"{odd}\0val/c0/500.png\0", code=2)
        self.assertIn("need --null", refused.stderr)
        done = self.whisker("classify", self.weights, "-", "--null", "--jsonl", input=f"{odd}\0val/c0/500.png\0")
        self.assertEqual([json.loads(line)["path"] for line in done.stdout.splitlines()], [odd, "val/c0/500.png"])

    def test_an_image_on_standard_input(self):
        expected = self.whisker("classify", self.weights, "val/c0/500.png", "--jsonl").stdout
        with open(self.folder / "val/c0/500.png", "rb") as image:
            done = self.whisker("classify", self.weights, "-", "--jsonl", stdin=image)
        self.assertEqual(done.stdout, expected.replace("val/c0/500.png", "-"))
        whole = (self.folder / "val/c0/500.png").read_bytes()
        (self.folder / "cut.png").write_bytes(whole[:len(whole) // 2])
        with open(self.folder / "cut.png", "rb") as image:
            done = self.whisker("classify", self.weights, "-", "--jsonl", stdin=image, code=3)
        self.assertEqual(json.loads(done.stdout)["path"], "-")
        self.assertNotIn("/proc", done.stdout + done.stderr)

    def piped_in(self, content, code=0):
        """classify - of bytes: the process with texts."""
        (self.folder / "piped_in").write_bytes(content)
        with open(self.folder / "piped_in", "rb") as file:
            return self.whisker("classify", self.weights, "-", stdin=file, code=code)

    def test_one_image_on_standard_input_is_one(self):
        image = (self.folder / "val/c0/500.png").read_bytes()
        self.assertNotIn("behind the image's end", self.piped_in(image).stderr)
        for more in (image, b"val/c0/500.png\n"):
            done = self.piped_in(image + more)
            self.assertEqual(len(done.stdout.splitlines()), 1)
            self.assertIn(f"standard input: {len(more)} bytes behind the image's end are not used", done.stderr)

    def test_other_formats_on_standard_input(self):
        pixels = bytes(range(48)) * 16
        (self.folder / "p6.ppm").write_bytes(b"P6\n16 16\n255\n" + pixels)
        expected = self.whisker("classify", self.weights, "p6.ppm").stdout.replace("p6.ppm", "-")
        self.assertEqual(self.piped_in(b"P6\n16 16\n255\n" + pixels).stdout, expected)
        for content, name in ((b"GIF89a\x10\0\x10\0\xf7\0\0" + pixels, "a GIF image"),
                              (b"II*\0\x08\0\0\0" + pixels, "a TIFF image"), (gzip.compress(pixels), "a gzip file")):
            done = self.piped_in(content, code=3)
            self.assertIn(f"standard input: expected an image or a list of names, got {name}; JPEG, PNG", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_no_option_is_nan(self):
        for command in (("classify", self.weights, "val", "--threshold"),
                        ("generate", self.weights, "--prompt", "x", "--temperature"),
                        ("devices", "--watch")):
            self.assertIn("expected a number from", self.whisker(*command, "nan", code=2).stderr)

    def test_texts(self):
        for part in ("train", "val"):
            (self.folder / "words" / part).mkdir(parents=True)
            for name, line in (("ja", "baba\naba\n"), ("no", "ccc\ncdc\n")):
                (self.folder / "words" / part / f"{name}.txt").write_text(line)
        (self.folder / "text.yaml").write_text(TEXT_CONFIG)
        self.whisker("train", "text.yaml", "name=text")
        weights = "runs/text/best.safetensors"
        process = self.conversation(weights, "-", "--text", "aba")
        self.assertTrue(self.answer(process.stdout).startswith("aba:"))
        for text in ("baba", "cdc"):
            self.say(process, text + "\n")
            self.assertEqual(self.answer(process.stdout), self.whisker("classify", weights, "--text", text).stdout)
        self.assertEqual(self.finish(process, 0), "")

    def piped(self, name, content):
        """A named pipe into which another process writes `content` once."""
        os.mkfifo(self.folder / name)
        (self.folder / "content").write_bytes(content)
        writer = subprocess.Popen(["sh", "-c", f"cat content > {name}"], cwd=self.folder)
        self.addCleanup(writer.wait, 60)

    def test_pipes_are_inputs(self):
        image = (self.folder / "val/c0/500.png").read_bytes()
        expected = self.whisker("classify", self.weights, "val/c0/500.png").stdout.replace("val/c0/500.png", "pipe.png")
        self.piped("pipe.png", image)
        self.assertEqual(self.whisker("classify", self.weights, "pipe.png").stdout, expected)
        with open(self.folder / "val/c0/500.png", "rb") as file:
            source = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE)
        done = self.whisker("classify", self.weights, "/dev/stdin", stdin=source.stdout)
        source.stdout.close()
        source.wait()
        self.assertEqual(done.stdout, expected.replace("pipe.png", "/dev/stdin"))
        self.piped("list", b"val/c0/500.png\n")
        listed = subprocess.run(["sh", "-c", '"$WHISKER" classify "$0" - < list', self.weights], cwd=self.folder,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(listed.stdout, expected.replace("pipe.png", "val/c0/500.png"))

    def test_rows_come_through_a_pipe(self):
        self.whisker("data", "generate", "waves", "--waves", "--per-class", "20", "--val-per-class", "5")
        config = pathlib.Path(__file__).parents[2] / "configs/keras_simple_rnn.yaml"
        self.whisker("train", config, "device=cpu", "train.epochs=1", "name=waves")
        rows = (self.folder / "waves/val.csv").read_bytes().splitlines(keepends=True)[0]
        self.piped("rows.csv", rows)
        (self.folder / "same").mkdir()
        (self.folder / "same/rows.csv").write_bytes(rows)
        weights = self.folder / "runs/waves/best.safetensors"
        through = self.whisker("classify", weights, "rows.csv").stdout
        self.assertEqual(through, self.whisker("classify", weights, "rows.csv", cwd=self.folder / "same").stdout)
        self.assertNotEqual(through, "")

    def test_a_pipe_that_does_not_block_is_waited_for(self):
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        process = self.start("classify", self.weights, "-", stdin=reader)
        os.close(reader)
        for _ in range(2):
            os.write(writer, b"val/c0/500.png\n")
            self.assertTrue(self.answer(process.stdout).startswith("val/c0/500.png:"))
        os.close(writer)
        self.assertEqual(self.finish(process, 0), "")

    def test_a_line_without_end_is_refused(self):
        done = self.whisker("classify", self.weights, "-", input="x" * (17 << 20), code=3)
        self.assertIn("standard input: expected lines of at most 16.0 MiB", done.stderr)

    def test_what_cannot_be_read_ends_with_3(self):
        for reader in (os.open(self.folder, os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)):
            done = self.whisker("classify", self.weights, "-", code=3, stdin=reader)
            os.close(reader)
            self.assertIn("standard input: cannot read", done.stderr)


if __name__ == "__main__":
    unittest.main()
