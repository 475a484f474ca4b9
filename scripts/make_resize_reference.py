#!/usr/bin/env python3
"""Prints tests/data/resize_reference.tsv: what Pillow's Image.resize gives, as CRC-32 of the pixels.

The source picture is a formula, so that the test can draw it again:
    pixel (x, y, c) = (x * x * 3 + y * 7 * (c + 1) + x * y // 5 + c * 60 + (x ^ y) * noise) % 256
Pillow 13 resizes vertically first where the height shrinks far more than the width; up to 12 columns always come
first, which is the order kept here. Run with 'pillow<13' installed: python3 scripts/make_resize_reference.py > tests/data/resize_reference.tsv
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


def main():
    random.seed(1)
    print(f"# Pillow {PIL.__version__}; columns: width height noise filter x0 y0 x1 y1 out_width out_height crc32")
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
    for index, (width, height, box, out_width, out_height) in enumerate(cases):
        noise = index % 3 * 13
        picture = source(width, height, noise)
        for name, resample in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
            out = picture.resize((out_width, out_height), resample, box=box)
            crc = zlib.crc32(out.tobytes())
            print(width, height, noise, name, *box, out_width, out_height, f"{crc:08x}", sep="\t")


if __name__ == "__main__":
    main()
