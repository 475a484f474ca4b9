#!/usr/bin/env python3
"""Writes tests/data/transforms/auto_augment.json: what Pillow makes of a drawn image by each operation
of torchvision's RandAugment and TrivialAugmentWide. Needs torch, torchvision and Pillow.

    python3 scripts/make_auto_augment_fixtures.py > tests/data/transforms/auto_augment.json
"""
import json

from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.autoaugment import RandAugment, TrivialAugmentWide, _apply_op

WIDTH, HEIGHT = 23, 17
NAMES = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
         "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"]


def drawn():
    """The image of the test: see drawn_image() there."""
    image = Image.new("RGB", (WIDTH, HEIGHT))
    image.putdata([(40 + (x * 9 + y * 5) % 190, 20 + (x * y * 3) % 200, 60 + (x * x + 7 * y) % 150)
                   for y in range(HEIGHT) for x in range(WIDTH)])
    return image


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def main():
    cases = []
    for kind, space in (("randaugment", RandAugment()._augmentation_space(31, (HEIGHT, WIDTH))),
                        ("trivialaugment", TrivialAugmentWide()._augmentation_space(31))):
        for name, (magnitudes, signed) in space.items():
            for bin_index in (0, 9, 22, 30):
                size = float(magnitudes[bin_index]) if magnitudes.ndim > 0 else 0.0
                for magnitude in ((size, -size) if signed else (size,)):
                    image = _apply_op(drawn(), name, magnitude, InterpolationMode.NEAREST, None)
                    cases.append({"policy": kind, "operation": NAMES.index(name), "bin": bin_index,
                                  "magnitude": magnitude, "fnv1a": fnv(image.tobytes()),
                                  "first": list(image.tobytes()[:6])})
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")


main()
