#!/usr/bin/env python3
"""Training steps of Whisker and PyTorch on the CPU, in alternation: the rows of bench_step.

usage: compare_pytorch.py BENCH_STEP [MODEL ...] [--rounds N] [--threads N]
Run it with a Python that has torch and torchvision. Each round runs bench_step, then PyTorch in a
process of its own (eager, channels_last and default layout; the faster counts). Prints one JSON
line per model: median milliseconds of both, their ratio, resident memory of both.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

MODELS = ["keras64", "chollet128", "resnet18"]


def torch_model(name):
    import torch.nn as nn
    import torchvision

    def conv(i, o):
        return [nn.Conv2d(i, o, 3), nn.ReLU(), nn.MaxPool2d(2)]

    if name == "keras64":
        return nn.Sequential(*conv(3, 32), *conv(32, 32), nn.Flatten(), nn.Linear(32 * 14 * 14, 128), nn.ReLU(),
                             nn.Linear(128, 2)), 64, 2, 32
    if name == "chollet128":
        return nn.Sequential(*conv(3, 32), *conv(32, 64), *conv(64, 128), *conv(128, 128), nn.Flatten(), nn.Dropout(0.5),
                             nn.Linear(6 * 6 * 128, 512), nn.ReLU(), nn.Linear(512, 2)), 128, 2, 32
    return torchvision.models.resnet18(), 224, 1000, 16


def torch_row(name, channels_last, groups, steps):
    """Median step in milliseconds, in this process."""
    import torch

    model, side, classes, batch = torch_model(name)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = model.to(memory_format=layout).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    images = torch.randn(batch, 3, side, side).to(memory_format=layout)
    labels = torch.arange(batch) % classes

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    for _ in range(3):
        step()
    times = []
    for _ in range(groups):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        times.append((time.perf_counter() - start) / steps * 1e3)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"milliseconds": statistics.median(times), "resident_mib": resident}


def child(command, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return json.loads(output.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench_step")
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--torch-row", nargs=4, metavar=("MODEL", "CHANNELS_LAST", "GROUPS", "STEPS"))
    arguments = parser.parse_args()
    if arguments.torch_row:
        name, channels_last, groups, steps = arguments.torch_row
        print(json.dumps(torch_row(name, channels_last == "1", int(groups), int(steps))))
        return
    for name in arguments.models or MODELS:
        groups, steps = ("5", "1") if name == "resnet18" else ("10", "3")
        ours, theirs = [], {"0": [], "1": []}
        for _ in range(arguments.rounds):
            ours.append(child([arguments.bench_step, name, "--groups", groups, "--steps", steps], arguments.threads))
            for layout in theirs:
                theirs[layout].append(child([sys.executable, __file__, arguments.bench_step, "--torch-row", name, layout,
                                             groups, steps], arguments.threads))
        median = lambda rows, key: statistics.median(row[key] for row in rows)
        best = min(theirs.values(), key=lambda rows: median(rows, "milliseconds"))
        whisker, torch_ms = median(ours, "milliseconds"), median(best, "milliseconds")
        print(json.dumps({
            "id": name, "batch": ours[0]["batch"], "threads": arguments.threads,
            "whisker_ms": round(whisker, 2), "pytorch_ms": round(torch_ms, 2), "ratio": round(whisker / torch_ms, 3),
            "pytorch_layout": "channels_last" if best is theirs["1"] else "default",
            "whisker_mib": round(median(ours, "resident_mib")), "pytorch_mib": round(median(best, "resident_mib")),
        }), flush=True)


if __name__ == "__main__":
    main()
