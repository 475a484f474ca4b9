#!/usr/bin/env python3
"""Decode + random resized crop 224 per core: Whisker, torchvision and Pillow in turns on one thread.

usage: compare_decode.py BENCH_DECODE FOLDER [--rounds N]     (needs torch, torchvision and pillow)
Every round runs each contender once over all files (read into memory first) for the same time; the
figure of each is the median of its rounds. Crops are drawn by each one's own random resized crop with
torchvision's defaults; torchvision resizes with antialias, as Whisker and Pillow do.
"""
import argparse
import io
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import torchvision
from PIL import Image
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

TARGET = 224


def timed_passes(task, files, seconds):
    rates = []
    end = time.perf_counter() + seconds
    while not rates or time.perf_counter() < end:
        start = time.perf_counter()
        for data in files:
            task(data)
        rates.append(len(files) / (time.perf_counter() - start))
    return statistics.median(rates)


def whisker_rate(program, folder, row, seconds):
    command = [program, folder, "--threads", "1", "--seconds", str(seconds), "--only", row]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[0])["images_per_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    paths = sorted(pathlib.Path(options.folder).rglob("*.jpg"))
    raw = [path.read_bytes() for path in paths]
    tensors = [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in raw]
    crop = v2.RandomResizedCrop(TARGET, antialias=True)
    flip = v2.RandomHorizontalFlip()
    contenders = {}
    for row in ("decode_full", "decode_rrc224_exact", "decode_rrc224_fast"):
        contenders[f"whisker {row}"] = lambda row=row: whisker_rate(
            options.program, options.folder, row, options.seconds)
    contenders["torchvision decode_full"] = lambda: timed_passes(
        lambda data: decode_jpeg(data, mode=ImageReadMode.RGB), tensors, options.seconds)
    contenders["torchvision decode_rrc224"] = lambda: timed_passes(
        lambda data: flip(crop(decode_jpeg(data, mode=ImageReadMode.RGB))), tensors, options.seconds)
    contenders["pillow decode_rrc224"] = lambda: timed_passes(
        lambda data: flip(crop(Image.open(io.BytesIO(data)).convert("RGB"))), raw, options.seconds)

    rates = {name: [] for name in contenders}
    for _ in range(options.rounds):
        for name, run in contenders.items():
            rates[name].append(run())
    for name, values in rates.items():
        print(json.dumps({"id": name, "images": len(paths), "threads": 1, "n": len(values),
                          "images_per_s": round(statistics.median(values), 1),
                          "min": round(min(values), 1), "max": round(max(values), 1)}))
    median = {name: statistics.median(values) for name, values in rates.items()}
    for name in ("decode_rrc224_fast", "decode_rrc224_exact"):
        ratio = median[f"whisker {name}"] / median["torchvision decode_rrc224"]
        print(json.dumps({"id": f"{name} / torchvision {torchvision.__version__}", "ratio": round(ratio, 2)}))
    full = median["whisker decode_full"] / median["torchvision decode_full"]
    print(json.dumps({"id": f"decode_full / torchvision {torchvision.__version__}", "ratio": round(full, 2)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
