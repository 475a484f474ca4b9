#!/usr/bin/env python3
"""Prints tests/data/transforms/resize_reference.tsv: what Pillow's Image.resize gives, as CRC-32 of the pixels.

The source image is a formula, so that the test can draw it again:
    pixel (x, y, c) = (x * x * 3 + y * 7 * (c + 1) + x * y // 5 + c * 60 + (x ^ y) * noise) % 256
Up to Pillow 12 the pass over columns always comes first, which is the order kept here: crc32. Pillow 13 takes rows
first where rows_first() holds: its own result is pillow13, another rounding. The script stops where the Pillow that
runs it does otherwise. Run with Pillow 13:
    python3 scripts/make_resize_reference.py > tests/data/transforms/resize_reference.tsv
"""
import random
import zlib

import PIL
from PIL import Image


def source(width, height, noise):
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            for c in range(3):
                value = x * x * 3 + y * 7 * (c + 1) + x * y // 5 + c * 60 + (x ^ y) * noise
                pixels.append(value % 256)
    return Image.frombytes("RGB", (width, height), bytes(pixels))


def rows_first(width, height, out_width, out_height):
    """Pillow 13's choice, in src/libImaging/Resample.c."""
    return height > out_height and height - out_height > 2 * (width - out_width)


def crc_of(image):
    return zlib.crc32(image.tobytes())


def main():
    random.seed(1)
    print(f"# Pillow {PIL.__version__}; columns: "
          "width height noise filter x0 y0 x1 y1 out_width out_height crc32 pillow13")
    fixed = [(64, 48, (0, 0, 64, 48), 32, 24), (64, 48, (0, 0, 64, 48), 64, 20), (64, 48, (0, 0, 64, 48), 30, 48),
             (64, 48, (0, 0, 64, 48), 64, 48), (31, 17, (0, 0, 31, 17), 224, 224), (1, 1, (0, 0, 1, 1), 5, 3),
             (1, 40, (0, 0, 1, 40), 7, 6), (40, 1, (0, 0, 40, 1), 6, 7), (200, 150, (0, 0, 200, 150), 1, 1),
             (447, 374, (0, 0, 447, 374), 224, 224)]
    cases = list(fixed)
    for _ in range(30):
        width, height = random.randint(2, 300), random.randint(2, 300)
        x0, y0 = random.uniform(0, width * 0.6), random.uniform(0, height * 0.6)
        x1, y1 = random.uniform(x0 + 0.5, width), random.uniform(y0 + 0.5, height)
        box = [round(min(v, limit) * 8) / 8 for v, limit in ((x0, width), (y0, height), (x1, width), (y1, height))]
        if random.random() < 0.3:
            box = [int(box[0]), int(box[1]), int(box[2]) + 1, int(box[3]) + 1]
        box[2], box[3] = min(box[2], width), min(box[3], height)
        cases.append((width, height, tuple(box), random.randint(1, 260), random.randint(1, 260)))
    # Tall images and wider results, on both sides of Pillow 13's choice.
    cases += [(100, 300, (0, 0, 100, 300), 56, 56), (150, 400, (3.5, 10, 150, 390.25), 112, 112),
              (90, 120, (0, 0, 90, 120), 180, 40), (60, 200, (0, 0, 60, 200), 60, 30),
              (120, 200, (0, 0, 120, 200), 100, 160), (120, 200, (0, 0, 120, 200), 100, 159)]
    for index, (width, height, box, out_width, out_height) in enumerate(cases):
        noise = index % 3 * 13
        image = source(width, height, noise)
        for name, resample in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
            x0, y0, x1, y1 = box
            columns = image.resize((out_width, height), resample, box=(x0, 0, x1, height))
            columns = columns.resize((out_width, out_height), resample, box=(0, y0, out_width, y1))
            out = image.resize((out_width, out_height), resample, box=box)
            changed = int(PIL.__version__.split(".")[0]) >= 13 and rows_first(width, height, out_width, out_height)
            assert changed or out.tobytes() == columns.tobytes(), (width, height, box, out_width, out_height)
            print(width, height, noise, name, *box, out_width, out_height, f"{crc_of(columns):08x}",
                  f"{crc_of(out):08x}", sep="\t")


if __name__ == "__main__":
    main()
