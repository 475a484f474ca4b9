"""data.cache: disk, from outside: the file may be cut while a run reads it, and no other file is ever replaced."""

import os
import struct
import unittest

from harness import ProgramTest


class Cache(ProgramTest):
    disk = ["data.cache=disk"]

    def weights(self, run):
        """The bytes behind the header, which names the run."""
        content = (self.folder / "runs" / run / "best.safetensors").read_bytes()
        return content[8 + struct.unpack("<Q", content[:8])[0]:]

    def test_a_cut_file_ends_no_run(self):
        """Cut in the middle of training, where a mapping would be SIGBUS; said once, and whole afterwards."""
        self.train("uncut", *self.disk, "data.cache_file=./uncut.pack", "train.epochs=6")
        whole = (self.folder / "uncut.pack").read_bytes()
        for size in (0, len(whole) // 2):
            name = f"cut{size}"
            pack = self.folder / f"{name}.pack"
            pack.write_bytes(whole)
            run = self.start("train", "c.yaml", *self.data, f"name={name}", *self.disk,
                             f"data.cache_file=./{pack.name}", "train.epochs=9999")
            metrics = self.folder / "runs" / name / "metrics.jsonl"
            epoch = '"kind":"epoch"'
            self.wait_for(metrics, epoch, 3)
            os.truncate(pack, size)
            self.wait_for(self.folder / "runs" / name / "log.txt", "was truncated or damaged")
            self.wait_for(metrics, epoch, metrics.read_text().count(epoch) + 2)  # every image is read again
            run.terminate()
            _, said = run.communicate()
            self.assertEqual(run.returncode, 75, said)
            self.assertEqual(said.count(f"data.cache: ./{pack.name} was truncated or damaged"), 1, said)
            self.assertEqual(pack.read_bytes(), whole)

    def test_no_other_file_is_replaced(self):
        thesis = self.folder / "thesis.txt"
        thesis.write_text("Years of work.\n" * 100)
        for name in ("./thesis.txt", "thesis.txt", str(thesis)):
            done = self.whisker("train", "c.yaml", *self.data, *self.disk, f"data.cache_file={name}", code=2)
            self.assertIn("expected a Whisker cache or no file at", done.stderr)
            self.assertEqual(thesis.read_text(), "Years of work.\n" * 100)
        (self.folder / "pack.val").write_text("mine")
        self.whisker("train", "c.yaml", *self.data, *self.disk, "data.cache_file=pack", code=2)
        self.assertEqual((self.folder / "pack.val").read_text(), "mine")
        os.mkfifo(self.folder / "pipe")
        self.whisker("train", "c.yaml", *self.data, *self.disk, "data.cache_file=pipe", code=2, timeout=60)

    def test_a_name_without_a_folder(self):
        self.train("bare", *self.disk, "data.cache_file=bare.pack")
        self.assertTrue((self.folder / "bare.pack").is_file())
        self.assertTrue((self.folder / "bare.pack.val").is_file())
        made = (self.folder / "bare.pack").stat().st_ino
        self.train("bare_again", *self.disk, "data.cache_file=bare.pack")
        self.assertEqual((self.folder / "bare.pack").stat().st_ino, made)
        self.assertEqual(self.weights("bare"), self.weights("bare_again"))


if __name__ == "__main__":
    unittest.main()
