#!/usr/bin/env python3
"""Makes a set of golden files: what a run of the present version leaves on disk, a few KB each.

usage: make_golden.py PROGRAM tests/golden/N

A new set is made when a format changes; the old ones stay, and tests/train/checkpoint/golden_test.cpp loads all of
them. expected.json holds what this script, which knows the formats by itself, reads in the files.
"""
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

CONFIG = """name: golden
deterministic: true
data: {train: data/train, val: data/val, image_size: 16}
augment: {horizontal_flip: true}
model:
  layers:
    - conv2d: {filters: 4, kernel: 3}
    - batch_norm: {activation: relu}
    - max_pool2d: 2
    - flatten
  head:
    - dense: {units: classes}
optimizer: {kind: adam, lr: 0.01}
schedule: {kind: plateau}
ema: {decay: 0.9}
train: {epochs: 3, batch_size: 6, log_every: 2}
checkpoint: {every: 5}
"""


def read_safetensors(path):
    """{name: (shape, values)} of a file, values as Python numbers."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        letter, width = {"F32": ("f", 4), "I64": ("q", 8)}[entry["dtype"]]
        tensors[name] = (entry["shape"], struct.unpack(f"<{(end - begin) // width}{letter}", content[begin:end]))
    return tensors


def logits_of_black(tensors):
    """What the network of CONFIG says of an image of zeros: its convolution gives its bias everywhere."""
    def values(name):
        return tensors[name][1]
    channels = [max(0.0, (b - mean) / math.sqrt(var + 1e-5) * scale + shift) for b, mean, var, scale, shift in
                zip(values("conv2d.bias"), values("batch_norm.running_mean"), values("batch_norm.running_var"),
                    values("batch_norm.weight"), values("batch_norm.bias"))]
    (classes, inputs), weight = tensors["dense.weight"]
    places = inputs // len(channels)
    return [values("dense.bias")[k] + sum(channels[i // places] * weight[k * inputs + i] for i in range(inputs))
            for k in range(classes)]


def main():
    program, target = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        def whisker(*words):
            subprocess.run([program, *words], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        whisker("data", "generate", "data", "--per-class", "12", "--val-per-class", "4", "--seed", "3")
        (pathlib.Path(scratch) / "golden.yaml").write_text(CONFIG)
        # Stopped in mid-epoch by the time budget, so that every counter of the state holds something.
        whisker("-q", "train", "golden.yaml", "train.epochs=2")
        whisker("-q", "train", "--resume", "runs/golden", "train.epochs=3", "train.time_budget_minutes=1e-9")
        run = pathlib.Path(scratch) / "runs/golden"
        target.mkdir(parents=True)
        for name in ("best.safetensors", "config.yaml", "metrics.jsonl"):
            shutil.copy(run / name, target)
        shutil.copytree(run / "last", target / "last")
    state = json.loads((target / "last/state.json").read_text())
    files = {"best": "best.safetensors", "model": f"last/{state['model']['name']}",
             "optimizer": f"last/{state['optimizer']['name']}"}
    expected = {"step": state["step"], "lines": len((target / "metrics.jsonl").read_text().splitlines())}
    for key, name in files.items():
        tensors = read_safetensors(target / name)
        expected[key] = {tensor: {"shape": shape, "sum": math.fsum(values)}
                         for tensor, (shape, values) in sorted(tensors.items())}
    expected["logits_of_black"] = logits_of_black(read_safetensors(target / "best.safetensors"))
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    for path in sorted(target.rglob("*")):
        if path.is_file():
            print(path.stat().st_size, path.relative_to(target))


if __name__ == "__main__":
    main()
