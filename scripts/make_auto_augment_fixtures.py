#!/usr/bin/env python3
"""Writes tests/data/transforms/auto_augment.json: what Pillow makes of a drawn image by each operation
of torchvision's RandAugment and TrivialAugmentWide. Needs torch, torchvision and Pillow.

    python3 scripts/make_auto_augment_fixtures.py > tests/data/transforms/auto_augment.json
"""
import json

from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import RandAugment, TrivialAugmentWide

WIDTH, HEIGHT = 23, 17


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
    for kind, policy in (("rand_augment", RandAugment()), ("trivial_augment", TrivialAugmentWide())):
        for operation, (name, (magnitudes_of, signed)) in enumerate(policy._AUGMENTATION_SPACE.items()):
            magnitudes = magnitudes_of(31, HEIGHT, WIDTH)
            for bin_index in (0,) if magnitudes is None else (9, 30):
                size = 0.0 if magnitudes is None else float(magnitudes[bin_index])
                for magnitude in (size, -size) if signed else (size,):
                    image = policy._apply_image_or_video_transform(drawn(), name, magnitude,
                                                                   InterpolationMode.NEAREST, {})
                    stored = magnitude * 255 if name == "Solarize" else magnitude
                    cases.append({"policy": kind, "operation": operation, "bin": bin_index,
                                  "magnitude": stored, "fnv1a": fnv(image.tobytes())})
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")


main()
