"""Runs the program named by $WHISKER on small drawn images; standard library only."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

PROGRAM = os.environ["WHISKER"]
LONG = os.environ.get("WHISKER_LONG") == "1"

CONFIG = """device: cpu
data: {image_size: 16, workers: 1}
model:
  layers:
    - conv2d: {filters: 8, kernel: 3, activation: relu}
    - batch_norm
    - dropout: 0.1
    - global_avg_pool2d
  head:
    - dense: {units: classes}
train: {epochs: 2, batch_size: 8}
"""


PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png_chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, pixel):
    """A PNG whose pixel(x, y) gives (r, g, b)."""
    rows = b"".join(b"\0" + bytes(c for x in range(width) for c in pixel(x, y)) for y in range(height))
    return (PNG_SIGNATURE + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b""))


def stripes(direction, number):
    """Stripes along x or y with a shade and a phase of their own."""
    def pixel(x, y):
        bright = ((y if direction == 0 else x) + number) // 3 % 2
        return [(250 if bright else 5 + number * 37 * (c + 1) % 90) for c in range(3)]
    return png(20 + number % 5, 16 + number % 5, pixel)


def write_classes(folder, per_class, first=0):
    for label in range(2):
        (folder / f"c{label}").mkdir(parents=True, exist_ok=True)
        for i in range(first, first + per_class):
            (folder / f"c{label}" / f"{i:03}.png").write_bytes(stripes(label, i))


def read_all(terminal):
    """What the program wrote to a pseudo-terminal until it closed its end."""
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            return shown.decode("utf-8", "surrogateescape")


class ProgramTest(unittest.TestCase):
    """A scratch folder with train/, val/ and c.yaml, which is the program's working folder."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="whisker_program_"))
        # Programs that share a cache overwrite each other's choices of algorithms, which differ in the last bits.
        os.environ["XDG_CACHE_HOME"] = str(cls.folder / ".cache")
        os.environ["XDG_DATA_HOME"] = str(cls.folder / ".data")
        write_classes(cls.folder / "train", 20)
        write_classes(cls.folder / "val", 5, 500)
        (cls.folder / "c.yaml").write_text(CONFIG)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    data = ["data.train=train", "data.val=val"]

    def whisker(self, *arguments, code=0, **options):
        """Runs to the end; checks the exit code; returns the process with texts."""
        options.setdefault("cwd", self.folder)
        options.setdefault("timeout", 120)
        if "stdout" not in options:
            options["stdout"] = subprocess.PIPE
        if "stderr" not in options:
            options["stderr"] = subprocess.PIPE
        done = subprocess.run([PROGRAM, *arguments], text=True, errors="surrogateescape", **options)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def wait_for(self, file, text, count=1):
        """Until `text` stands in the file `count` times."""
        for _ in range(3000):
            if file.exists() and file.read_text().count(text) >= count:
                return
            time.sleep(0.01)
        self.fail(f"no {text} in {file} within 30 s")

    def start(self, *arguments, **options):
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        return subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, text=True, **options)

    def metadata(self, path):
        """The metadata of a safetensors file."""
        return self.safetensors(path)[0]

    def safetensors(self, path):
        """A file's metadata and the bytes of each of its tensors."""
        content = (self.folder / path).read_bytes()
        begin = 8 + struct.unpack("<Q", content[:8])[0]
        tensors = json.loads(content[8:begin])
        metadata = tensors.pop("__metadata__")
        return metadata, {name: content[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]
                          for name, entry in tensors.items()}

    def train(self, name, *overrides, code=0, **options):
        """A run named `name`; returns its folder."""
        self.whisker("train", "c.yaml", *self.data, f"name={name}", *overrides, code=code, **options)
        return self.folder / "runs" / name
