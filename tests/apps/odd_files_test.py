"""Files that someone has put where a run reads or writes: links, pipes, and whole files with impossible numbers.

None is followed, waited for or used.
"""

import json
import os
import pathlib
import shutil
import signal
import struct
import unittest

from harness import ProgramTest


class OddFiles(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().train("sound")
        cls.run_folder = cls.folder / "runs/sound"

    def runTest(self):
        """Lets setUpClass make an instance."""

    def copy(self, name):
        """A run of its own to spoil."""
        run = self.folder / "runs" / name
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(self.run_folder, run)
        return run

    def resume(self, run, code):
        return self.whisker("train", "--resume", str(run), "train.epochs=3", code=code)

    def test_links_in_a_run_folder_are_not_followed(self):
        for name in ("lock", "metrics.jsonl", "log.txt"):
            for link in (os.symlink, os.link):
                run = self.copy("linked")
                thesis = self.folder / "thesis.txt"
                thesis.write_text("years of work\n" * 1000)
                (run / name).unlink()
                link(thesis, run / name)
                done = self.resume(run, 4)
                self.assertIn(f"{name}: expected a regular file of the run's own", done.stderr)
                self.assertEqual(thesis.read_text(), "years of work\n" * 1000, name)
                thesis.unlink()
        run = self.copy("linked")
        elsewhere = self.folder / "elsewhere"
        shutil.move(run / "last", elsewhere)
        (run / "last").symlink_to(elsewhere)
        before = {file.name: file.read_bytes() for file in elsewhere.iterdir()}
        self.assertIn("last: expected a folder of the run's own, got a symbolic link", self.resume(run, 4).stderr)
        self.assertEqual({file.name: file.read_bytes() for file in elsewhere.iterdir()}, before)

    def test_links_that_a_write_replaces(self):
        """These are renamed over: the link goes, its target stays."""
        run = self.copy("replaced")
        thesis = self.folder / "thesis.txt"
        for name in ("config.yaml", "last/state.json"):
            target = self.folder / ("linked_" + pathlib.Path(name).name)
            shutil.move(run / name, target)
            (run / name).symlink_to(target)
        before = {file: file.read_bytes() for file in self.folder.glob("linked_*")}
        (run / "best.safetensors").unlink()
        thesis.write_text("years of work\n")
        (run / "best.safetensors").symlink_to(thesis)
        self.whisker("train", "--resume", str(run), "train.epochs=4")
        self.assertEqual(thesis.read_text(), "years of work\n")
        for file, content in before.items():
            self.assertEqual(file.read_bytes(), content)

    def test_a_deleted_lock_admits_no_second_writer(self):
        process = self.start("train", "c.yaml", *self.data, "name=busy", "train.epochs=100000", "train.log_every=1")
        run = self.folder / "runs/busy"
        self.wait_for(run / "metrics.jsonl", '"step"')
        (run / "lock").unlink()
        self.assertIn("is writing to it", self.resume(run, 2).stderr)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)

    def test_pipes_are_not_waited_for(self):
        for name in ("lock", "metrics.jsonl", "log.txt", "config.yaml", "last/state.json",
                     next((self.run_folder / "last").glob("model-*")).relative_to(self.run_folder)):
            run = self.copy("piped")
            (run / name).unlink()
            os.mkfifo(run / name)
            self.resume(run, 4)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for arguments in (["classify", pipe, "val"], ["evaluate", pipe, "val"],
                          ["train", "c.yaml", *self.data, "name=from_pipe", "--init", pipe]):
            done = self.whisker(*map(str, arguments), code=4)
            self.assertIn("expected a regular file, got a pipe", done.stderr)
        cache = self.folder / "user_cache"
        (cache / "whisker").mkdir(parents=True)
        os.mkfifo(cache / "whisker/cpu_algorithms.json")
        self.train("cached", env={**os.environ, "XDG_CACHE_HOME": str(cache)})

    def test_what_the_user_names_may_be_a_pipe(self):
        reader, writer = os.pipe()
        os.write(writer, (self.folder / "c.yaml").read_bytes())
        os.close(writer)
        self.whisker("train", f"/dev/fd/{reader}", *self.data, "name=piped_config", pass_fds=[reader])
        os.close(reader)

    def spoiled_weights(self, change):
        """Weights whose metadata and tensors `change(metadata, header, data)` has edited."""
        content = (self.run_folder / "best.safetensors").read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        header, data = json.loads(content[8:8 + length]), bytearray(content[8 + length:])
        change(header["__metadata__"], header, data)
        text = json.dumps(header).encode()
        path = self.folder / "spoiled.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
        return path

    def refused_weights(self, says, change):
        path = self.spoiled_weights(change)
        for arguments in (["classify", path, "val"], ["evaluate", path, "val"],
                          ["train", "c.yaml", *self.data, "name=spoiled", "--init", path]):
            if arguments[0] == "train" and "preprocess" in says:
                continue  # its own preprocessing is the configuration's
            done = self.whisker(*map(str, arguments), code=4)
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertFalse((self.folder / "runs/spoiled").exists())

    def test_impossible_weights_are_4(self):
        for value in (float("nan"), float("inf")):
            def number(_, header, data, value=value):
                struct.pack_into("<f", data, header["conv2d.weight"]["data_offsets"][0] + 8, value)
            self.refused_weights("tensor 'conv2d.weight': expected values that are finite in f32, got NaN or Inf",
                                 number)

        def twice(metadata, _, __):
            metadata["classes"] = '["c0", "c0"]'
        self.refused_weights("classes: expected every name once, got 'c0' again", twice)
        for key, value in (("scale", 1e308), ("mean", [1e308] * 3), ("std", [1e-308] * 3)):
            def absurd(metadata, _, __, key=key, value=value):
                metadata["preprocess"] = json.dumps({**json.loads(metadata["preprocess"]), key: value})
            self.refused_weights(f"preprocess.{key}: expected a number from ", absurd)
        self.whisker("classify", str(self.spoiled_weights(lambda *_: None)), "val")  # control: as it was

    def test_impossible_states_are_4(self):
        for key, value in (("epoch", -1), ("loss_scale", {"value": 1e308, "good_steps": 0, "skipped_in_row": 0})):
            run = self.copy("impossible")
            state = json.loads((run / "last/state.json").read_text())
            (run / "last/state.json").write_text(json.dumps({**state, key: value}))
            self.assertIn("with --init instead", self.resume(run, 4).stderr)


if __name__ == "__main__":
    unittest.main()
