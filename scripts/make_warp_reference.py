#!/usr/bin/env python3
"""Prints tests/data/transforms/warp_reference.tsv: warps of a small image by Pillow, with Keras' matrices.

    python3 scripts/make_warp_reference.py > tests/data/transforms/warp_reference.tsv     # needs numpy, pillow

The matrices are those of keras_preprocessing.image.apply_affine_transform, in (row, column); Pillow samples in mode F
(no rounding), and the results are rounded to bytes here. The image is a formula, so that the test can draw it again:
    pixel (x, y, c) = (x * 37 + y * 61 + c * 90 + x * y * 5) % 256, but 40 at the edge
What lies outside is 40 as well: with such an edge Pillow's fill color, a constant and the nearest pixel are the same.
"""
import math

import numpy
import PIL
from PIL import Image

WIDTH, HEIGHT, EDGE = 13, 10, 40

# rotation and shear in degrees, zooms, shifts in pixels
CASES = [(0, 0, 1, 1, 0, 0), (30, 0, 1, 1, 0, 0), (-90, 0, 1, 1, 0, 0), (0, 20, 1, 1, 0, 0), (0, -35, 1, 1, 0, 0),
         (0, 0, 0.7, 1, 0, 0), (0, 0, 1, 1.4, 0, 0), (0, 0, 1, 1, 2.5, 0), (0, 0, 1, 1, 0, -1.75),
         (25, 15, 1.2, 0.8, 1.3, -2.1), (-140, 10, 0.6, 0.9, -1.5, 0.4)]


def channel(c):
    pixels = numpy.full((HEIGHT, WIDTH), EDGE, dtype=numpy.float32)
    for y in range(1, HEIGHT - 1):
        for x in range(1, WIDTH - 1):
            pixels[y, x] = (x * 37 + y * 61 + c * 90 + x * y * 5) % 256
    return Image.fromarray(pixels)


def keras_matrix(rotation, shear, zoom_x, zoom_y, shift_x, shift_y):
    theta, slant = math.radians(rotation), math.radians(shear)
    rotate = numpy.array([[math.cos(theta), -math.sin(theta), 0], [math.sin(theta), math.cos(theta), 0], [0, 0, 1]])
    shift = numpy.array([[1, 0, shift_y], [0, 1, shift_x], [0, 0, 1]])
    shears = numpy.array([[1, -math.sin(slant), 0], [0, math.cos(slant), 0], [0, 0, 1]])
    zoom = numpy.diag([zoom_y, zoom_x, 1])
    row, column = HEIGHT / 2 - 0.5, WIDTH / 2 - 0.5
    to_center = numpy.array([[1, 0, row], [0, 1, column], [0, 0, 1]])
    from_center = numpy.array([[1, 0, -row], [0, 1, -column], [0, 0, 1]])
    return to_center @ rotate @ shift @ shears @ zoom @ from_center


def warped(case):
    m = keras_matrix(*case)
    # Pillow's pixel i lies at i + 1/2.
    a, b, d, e = m[1, 1], m[1, 0], m[0, 1], m[0, 0]
    data = (a, b, m[1, 2] + 0.5 - 0.5 * (a + b), d, e, m[0, 2] + 0.5 - 0.5 * (d + e))
    channels = [numpy.asarray(channel(c).transform((WIDTH, HEIGHT), Image.Transform.AFFINE, data,
                                                   Image.Resampling.BILINEAR, fillcolor=EDGE)) for c in range(3)]
    return numpy.rint(numpy.stack(channels, axis=-1)).astype(numpy.uint8)


def main():
    print(f"# Pillow {PIL.__version__}; columns: rotation shear zoom_x zoom_y shift_x shift_y pixels (H, W, 3)")
    for case in CASES:
        print(*case, warped(case).tobytes().hex(), sep="\t")


if __name__ == "__main__":
    main()
