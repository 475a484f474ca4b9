"""A full disk never looks like success and never loses what was there before.

On a real file system of every size in question where mounting is allowed (root, in a mount namespace of
its own); elsewhere a limit on file sizes stands for the full disk. The test says which.
"""

import contextlib
import ctypes
import os
import pathlib
import resource
import shutil
import subprocess
import unittest

from harness import LONG, ProgramTest

PAGE = 4096


def own_mounts():
    """Leaves the common mount namespace; False where that is not allowed."""
    clone_newns = 0x00020000
    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(clone_newns) != 0:
        return False
    return subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True).returncode == 0


@contextlib.contextmanager
def small_disk(folder, size):
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "whisker_test", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def limit(size):
    """For a child process: no file may grow beyond `size` bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def files_in(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def pages(files):
    return sum(-(-len(content) // PAGE) for content in files.values())


class FullDisk(ProgramTest):
    # Files of many pages, so that many sizes of the disk end in different places.
    network = ["model.layers=[{conv2d: {filters: 64, kernel: 3}}, {conv2d: {filters: 32, kernel: 3}}, global_avg_pool2d]",
               "ema.decay=0.9"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().train("full", *cls.network)
        cls.run_folder = cls.folder / "runs/full"
        cls.before = files_in(cls.run_folder)

    def runTest(self):
        """Lets setUpClass make an instance."""

    def resume(self, run, **options):
        return self.whisker("train", "--resume", str(run), "train.epochs=3", code=None, **options)

    def check_failed(self, done, run):
        """What a failed resume says, and that everything of before is there."""
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("whisker: error:", done.stderr)
        after = files_in(run)
        kept = [n for n in self.before if n.startswith("last/") or n == "best.safetensors"]
        self.assertEqual({name: after.get(name) for name in kept}, {name: self.before[name] for name in kept})
        for name in after:
            self.assertRegex(name, r"(\.safetensors|\.json|\.jsonl|\.yaml|\.txt|\.csv|\.html|\.md|lock)$")

    def written_in_place(self, run):
        """The control: writes larger files over those of last/; how many are whole in neither form."""
        lost = 0
        for file in sorted((run / "last").iterdir()):
            content = file.read_bytes()
            try:
                with open(file, "wb", buffering=0) as out:
                    if out.write(content * 2) < len(content) * 2:
                        raise OSError("short write")
            except OSError:
                lost += 1
        return lost

    def test_a_full_disk_is_6_and_keeps_the_old_files(self):
        if own_mounts():
            self.on_small_disks()
        else:
            self.with_limited_files()

    def on_small_disks(self):
        disk = self.folder / "disk"
        used = pages(self.before) + len(list(self.run_folder.rglob("*"))) + 2
        sizes = range(used, used + 100, 1 if LONG else 2)
        failed = succeeded = lost = 0
        for size in sizes:
            with small_disk(disk, size * PAGE):
                try:
                    shutil.copytree(self.run_folder, disk / "full")
                except shutil.Error:
                    self.fail(f"{size} pages do not hold the run itself")
                done = self.resume(disk / "full")
                if done.returncode == 0:
                    succeeded += 1
                    self.resume_again(disk / "full")
                    continue
                self.assertEqual(succeeded, 0, f"{size} pages failed, fewer were enough")
                failed += 1
                self.check_failed(done, disk / "full")
                lost += self.written_in_place(disk / "full") if failed % 5 == 0 else 0
        print(f"sizes of a small disk (tmpfs): {len(sizes)}, too small {failed}, large enough {succeeded}; "
              f"control: files lost by a writer in place {lost}")
        self.assertGreater(failed, len(sizes) // 3)
        self.assertGreater(lost, 0)
        with small_disk(disk, used * PAGE):  # with free space it resumes
            shutil.copytree(self.run_folder, disk / "full")
            self.check_failed(self.resume(disk / "full"), disk / "full")
            subprocess.run(["mount", "-o", f"remount,size={used * PAGE * 20}", disk], check=True)
            self.assertEqual(self.resume(disk / "full").returncode, 0)

    def resume_again(self, run):
        """A resume that reported success left a checkpoint that loads."""
        done = self.whisker("train", "--resume", str(run), "train.epochs=3", code=None)
        self.assertIn(done.returncode, (0, 6), done.stderr)

    def test_a_run_goes_on_without_more_histograms(self):
        done = self.whisker("train", "c.yaml", *self.data, "name=rows", "train.histogram_every=1", "train.epochs=6",
                            preexec_fn=limit(1 << 15))
        self.assertIn("histograms.jsonl: cannot write: File too large", done.stderr)
        self.assertEqual(done.stderr.count("The run goes on, and histograms.jsonl ends before step "), 1)
        flow = self.whisker("study", "gradient-flow", "runs/rows").stdout  # half a row is left out
        self.whisker("train", "--resume", "runs/rows", "train.epochs=7")
        resumed = self.whisker("study", "gradient-flow", "runs/rows").stdout
        self.assertIn("to 35", resumed)
        self.assertNotIn("to 35", flow)

    def with_limited_files(self):
        largest = max(len(content) for name, content in self.before.items() if name.startswith("last/"))
        count = 50 if LONG else 8
        sizes = range(256, largest, max(1, largest // count))
        for size in sizes:
            self.check_failed(self.resume(self.run_folder, preexec_fn=limit(size)), self.run_folder)
        print(f"sizes of a full disk (limit on file sizes, no mounting here): {len(sizes)}")
        self.assertEqual(self.resume(self.run_folder).returncode, 0)  # control: with free space it resumes


if __name__ == "__main__":
    unittest.main()
