"""What files of every kind do to a run: damaged ones, WebP, and images of formats that are not read."""

import base64
import json
import struct
import unittest
import zlib

from harness import PNG_SIGNATURE, ProgramTest, png_chunk, stripes, write_classes

# 21x17 pixels, lossless: stripes() of class 0 and 1.
WEBP = [base64.b64decode("UklGRigAAABXRUJQVlA4TBwAAAAvFAAEA" + rest)
        for rest in ("AVBtg3i/FWO8ArM9iz3P/s4dOuhWw8N", "DWYadsGYvlTGYqdzmzPcv9jOwoVKvRP")]
ANIMATED = b"RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x0f\0\0\x0f\0\0ANIM\6\0\0\0\0\0\0\0\0\0"
# In the order in which they are counted.
UNSUPPORTED = {"AVIF": b"\0\0\0\x1cftypavif\0\0\0\0", "GIF": b"GIF89a\x10\0\x10\0",
               "HEIC": b"\0\0\0\x18ftypheic\0\0\0\0",
               "TIFF": b"II*\0\x08\0\0\0", "animated WebP": ANIMATED}
COUNTED = ", ".join(f"2 {name} (not supported)" for name in UNSUPPORTED)


def illegal_png():
    """A PNG with the right checksums whose zlib stream begins with a block of type 3."""
    return (PNG_SIGNATURE + png_chunk(b"IHDR", b"\0\0\0\4\0\0\0\4\x08\0\0\0\0")
            + png_chunk(b"IDAT", b"\x78\1\7" + bytes(6)) + png_chunk(b"IEND", b""))


class Images(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().train("base")
        cls.weights = "runs/base/best.safetensors"

    def runTest(self):
        """Lets setUpClass make an instance."""

    def test_an_illegal_zlib_block_ends_no_command(self):
        write_classes(self.folder / "illegal", 20)
        (self.folder / "illegal/c0/bad.png").write_bytes(illegal_png())
        says = "illegal/c0/bad.png: damaged PNG: its data cannot be unpacked"
        for workers in (0, 2):
            done = self.whisker("train", "c.yaml", f"name=illegal{workers}", "data.train=illegal", "data.val=val",
                                "data.max_bad=0.1", f"data.workers={workers}")
            self.assertIn(says, done.stderr)
        self.assertIn(f"bad        {says}", self.whisker("data", "check", "illegal", code=3).stdout)
        self.assertIn(says, self.whisker("data", "stats", "illegal", code=3).stderr)
        self.assertIn(says, self.whisker("classify", self.weights, "illegal", code=3).stderr)
        self.assertIn(says, self.whisker("evaluate", self.weights, "illegal", code=3).stderr)

    def test_webp_is_read_whatever_its_name(self):
        for label in range(2):
            folder = self.folder / f"webp/c{label}"
            folder.mkdir(parents=True)
            for name in ("1.webp", "2.WEBP", "3.jpg", "4"):
                (folder / name).write_bytes(WEBP[label])
        self.whisker("train", "c.yaml", "name=webp", "data.train=webp", "data.val=webp", "data.max_bad=0")
        self.assertIn("8 images, 0 bad", self.whisker("data", "check", "webp", code=0).stdout)
        self.assertIn("8 images, 0 unreadable", self.whisker("data", "stats", "webp").stdout)
        for label in range(2):
            (self.folder / f"{label}.png").write_bytes(stripes(label, 1))
        said = self.whisker("classify", self.weights, "0.png", "1.png", "webp", "--jsonl").stdout.splitlines()
        first, second, *others = [json.loads(line)["predictions"] for line in said]
        self.assertNotEqual(first, second)
        self.assertEqual(others, 4 * [first] + 4 * [second], "lossless pixels are the PNG's")
        self.assertEqual(json.loads(self.whisker("evaluate", self.weights, "webp", "--json").stdout)["images"], 8)

    def test_other_formats_are_counted_whatever_their_names(self):
        write_classes(self.folder / "mixed", 4)
        for number, content in enumerate(UNSUPPORTED.values()):
            (self.folder / f"mixed/c0/{number}.jpg").write_bytes(content)
            (self.folder / f"mixed/c1/{number}.gif").write_bytes(content)
        (self.folder / "mixed/c1/notes.txt").write_text("no image")
        done = self.whisker("train", "c.yaml", "name=mixed", "data.train=mixed", "data.val=val", "data.max_bad=0")
        used = f"8 of 19 files used: {COUNTED}, 1 not an image"
        self.assertIn(f"data.train: {used}", done.stderr)
        done = self.whisker("data", "check", "mixed")
        self.assertIn(f"files      mixed: {used}\n8 images, 0 bad", done.stdout)
        for command in ("check", "stats"):
            said = json.loads(self.whisker("data", command, "mixed", "--json").stdout)["notes"]
            self.assertTrue(any(" files used" in note for note in said), said)
        self.assertEqual(json.loads(self.whisker("data", "check", "mixed", "--json").stdout)["skipped"], 10)
        self.assertIn("8 images, 0 unreadable", self.whisker("data", "stats", "mixed").stdout)
        self.assertIn(used, self.whisker("classify", self.weights, "mixed").stderr)
        self.assertIn(used, self.whisker("evaluate", self.weights, "mixed").stderr)
        for number, name in enumerate(UNSUPPORTED):  # by name they are refused
            done = self.whisker("classify", self.weights, f"mixed/c0/{number}.jpg", code=3)
            self.assertRegex(done.stderr, f"{number}.jpg: an? {name} image; JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported")

    def test_splits_are_used_and_every_file_is_counted(self):
        write_classes(self.folder / "brain/Training", 8)
        write_classes(self.folder / "brain/Testing", 3, 100)
        (self.folder / "brain/Training/c0/.DS_Store").write_bytes(b"x")
        (self.folder / "brain/Training/c1/link.png").symlink_to("000.png")
        (self.folder / "brain/Training/c1/pixels.ppm").write_bytes(b"P6 2 1 255\nabcdef")
        use = "18 of 19 files used (1 is a link): 1 hidden"
        found = "brain holds splits: data.train is brain/Training, data.test is brain/Testing; a fifth of data.train"
        done = self.whisker("train", "c.yaml", "name=brain", "data.train=brain", "train.epochs=1")
        for told in (done.stderr, (self.folder / "runs/brain/log.txt").read_text()):
            self.assertIn(f"data.train: {use}", told)
            self.assertIn(found, told)
            self.assertIn("test: images 6", told)
        self.assertIn(found, self.whisker("train", "--data", "brain", "--dry-run", "device=cpu").stdout)
        done = self.whisker("data", "check", "brain")
        self.assertIn(f"splits     training brain/Training, test brain/Testing\n", done.stdout)
        self.assertIn(f"files      brain/Training: {use}\n24 images, 0 bad", done.stdout)
        self.assertIn("18 images, 0 unreadable", self.whisker("data", "stats", "brain").stdout)
        (self.folder / "brain/other").mkdir()
        (self.folder / "brain/other/1.png").write_bytes(stripes(0, 1))
        for command in (("train", "c.yaml", "data.train=brain"), ("train", "--data", "brain"), ("data", "check", "brain"),
                        ("data", "stats", "brain")):
            self.assertIn("holds 'Testing', 'Training' beside 'other'", self.whisker(*command, code=3).stderr)
        said = self.whisker("evaluate", self.weights, "brain", code=3).stderr
        self.assertIn("got 'Testing', 'Training', which names a split", said)

    def test_layouts_of_two_readings_are_refused_alike(self):
        def lay(root, *folders):
            for number, folder in enumerate(folders):
                path = self.folder / root / folder
                path.mkdir(parents=True)
                (path / "1.png").write_bytes(stripes(number % 2, number + 1))
        lay("pairs", "cat_train", "dog_train", "cat_test", "dog_test")
        lay("alike", "source/cat", "source/dog", "target/cat", "target/dog")
        lay("wrapped", "data/train/cat", "data/train/dog", "data/val/cat", "data/val/dog")
        lay("within", "cat/train", "cat/val", "dog/train", "dog/val")
        for root, says in (("pairs", "pairs holds 'cat_train', 'cat_test'. Either they are splits of the classes in their"
                                     " names: data.label_pattern='{label}_train/*' reads"),
                           ("alike", "alike holds 'source', 'target', which all hold 'cat', 'dog'. Either they are parts of"
                                     " one data set: name one of them as data.train and another as data.val, or"
                                     " read all as one by data.label_pattern='*/{label}/*'. Or they are classes: set"
                                     " data.label_pattern (--label-pattern) to '{label}/*/*'."),
                           ("wrapped", "the splits 'train', 'val' lie in wrapped/data. Name that folder instead of wrapped."),
                           ("within", "class folder within/cat holds 'train', 'val', the names of splits.")):
            said = set()
            for command in (("train", "--data", root), ("train", "c.yaml", f"data.train={root}"), ("data", "check", root),
                            ("data", "stats", root)):
                error = self.whisker(*command, code=3).stderr
                self.assertIn(f": {says}", error, command)
                said.add(error.split(": ", 3)[-1])
            self.assertEqual(len(said), 1, said)
        for pattern in ("*/{label}/*", "{label}/*/*"):
            self.whisker("train", "--data", "alike", f"data.label_pattern={pattern}", "--dry-run", "device=cpu")
        self.whisker("train", "--data", "wrapped/data", "--dry-run", "device=cpu")

    def write_deep(self, name, base, step, pgm=False):
        """12 files of 16 bits in two classes."""
        for label in range(2):
            folder = self.folder / f"{name}/c{label}"
            folder.mkdir(parents=True)
            for i in range(6):
                row = struct.pack(">8H", *(8 * [base + step * label + 99 * i]))
                if pgm:
                    (folder / f"{i}.pgm").write_bytes(b"P5 8 8 65535\n" + 8 * row)
                    continue
                (folder / f"{i}.png").write_bytes(
                    PNG_SIGNATURE + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 16, 0, 0, 0, 0))
                    + png_chunk(b"IDAT", zlib.compress(8 * (b"\0" + row))) + png_chunk(b"IEND", b""))

    def test_sensors_of_12_bits_are_not_black(self):
        self.write_deep("sensor", 500, 3000)
        self.write_deep("sensor_pgm", 500, 3000, pgm=True)
        self.write_deep("full", 5000, 50000)
        bits = "data.png_bits is 12: the largest sample in 12 of 12 files of 16 bits is 3995"
        for name in ("sensor", "sensor_pgm"):
            done = self.whisker("train", "c.yaml", f"name={name}", f"data.train={name}", f"data.val={name}")
            self.assertIn(bits, done.stderr)
            self.assertIn("png_bits: 12", (self.folder / f"runs/{name}/config.yaml").read_text())
            self.assertIn(bits, self.whisker("data", "check", name).stdout)
            self.assertIn(bits, self.whisker("data", "stats", name).stdout)
            dark = ("12 files of 16 bits hold samples up to 3995 and look dark, as the weights read 16 bits: "
                    "--input png_bits=12 reads 12 bits")
            for command in ("classify", "evaluate"):
                own = self.whisker(command, f"runs/{name}/best.safetensors", "sensor", "sensor_pgm", "--json")
                self.assertNotIn("dark", own.stderr)
                self.assertIn(dark, self.whisker(command, self.weights, name, "--json").stderr)
        dark = self.whisker("classify", self.weights, "sensor/c1/0.png", "--json").stdout
        bright = self.whisker("classify", self.weights, "sensor/c1/0.png", "--json", "--input", "png_bits=12")
        self.assertNotIn("dark", bright.stderr)
        self.assertNotEqual(bright.stdout, dark)
        # More bits than the weights read: two readings, of which nobody chooses one.
        trained = "runs/sensor/best.safetensors"
        too_large = (" is 55495, and the weights read 12 bits, up to 4095. --input png_bits=16 reads all samples, "
                     "--input png_bits=12 larger ones as white")
        self.assertIn("evaluate: the largest sample in 12 of 12 files of 16 bits" + too_large,
                      self.whisker("evaluate", trained, "full", code=3).stderr)
        self.assertIn("full/c1/5.png: its largest sample" + too_large,
                      self.whisker("classify", trained, "full", "sensor", code=3).stderr)
        for chosen in ("12", "16"):
            for command in ("evaluate", "classify"):
                done = self.whisker(command, trained, "full", "--input", f"png_bits={chosen}")
                self.assertNotIn("samples", done.stderr)
        two = ("c.yaml", "name=two", "data.train=sensor", "data.val=full")
        self.assertIn("data.val: the largest sample in 12 of 12 files of 16 bits is 55495, in data.train 3995. "
                      "data.png_bits=16 reads all as they are, data.png_bits=12 larger samples as white.",
                      self.whisker("train", *two, code=3).stderr)
        self.whisker("train", *two, "data.png_bits=12", "--dry-run")
        turned = self.whisker("train", "c.yaml", "name=turned", "data.train=full", "data.val=sensor")
        self.assertIn("in data.train 55495: it looks dark, as data.png_bits is 16", turned.stderr)

    def test_transparent_pixels_are_said(self):
        write_classes(self.folder / "clear", 4, 1)
        rows = 8 * (b"\0" + 8 * bytes((10, 20, 30, 0)))
        for label in range(2):
            (self.folder / f"clear/c{label}/0.png").write_bytes(
                PNG_SIGNATURE + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 6, 0, 0, 0))
                + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b""))
        said = "have an alpha channel: transparent pixels become white"
        done = self.whisker("train", "c.yaml", "name=clear", "data.train=clear", "data.val=val")
        self.assertIn(f"data.train: 10 of 10 files used; 2 {said}", done.stderr)
        self.assertIn(f"10 of 10 files used; 2 {said}", self.whisker("data", "check", "clear").stdout)
        self.assertIn(f"10 of 10 files used; 2 {said}", self.whisker("evaluate", self.weights, "clear").stderr)
        self.assertIn(f"2 images {said}", self.whisker("classify", self.weights, "clear").stderr)
        self.assertIn("1 image has an alpha", self.whisker("classify", self.weights, "clear/c0/0.png").stderr)

    def test_a_folder_of_nothing_else(self):
        for label in range(2):
            (self.folder / f"gifs/c{label}").mkdir(parents=True)
            (self.folder / f"gifs/c{label}/1.jpg").write_bytes(UNSUPPORTED["GIF"])
        (self.folder / "gifs/notes.txt").write_text("no image")
        done = self.whisker("classify", self.weights, "gifs", code=3)
        self.assertIn("no images found in 'gifs': JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported; there are 2 GIF and 1 other file.",
                      done.stderr)
        done = self.whisker("train", "c.yaml", "data.train=gifs", "data.val=val", code=3)
        self.assertIn("found 2 folders and 3 other files (2 GIF)", done.stderr)


if __name__ == "__main__":
    unittest.main()
