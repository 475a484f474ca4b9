#!/usr/bin/env python3
"""Convolution layers on the CPU beside PyTorch, in turns on the same machine.

usage: compare_conv.py PATH_TO_bench_conv [--threads 2] [--rounds 8] [N,SIDE,C,C_OUT,KERNEL,STRIDE,PADDING...]
One JSON object per layer (conv + bias + relu, forward and all gradients): fastest and median
milliseconds of both sides, the ratio (above 1: Whisker is faster) and Whisker's GFLOP/s. PyTorch
runs in the fastest of its two memory formats, each eager and by torch.compile. Needs torch.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# keras64, chollet128 and resnet18 at their batch sizes.
LAYERS = ["32,64,3,32,3,1,0", "32,31,32,32,3,1,0",
          "32,128,3,32,3,1,0", "32,63,32,64,3,1,0", "32,30,64,128,3,1,0", "32,14,128,128,3,1,0",
          "16,224,3,64,7,2,3", "16,56,64,64,3,1,1", "16,56,64,128,3,2,1", "16,56,64,128,1,2,0",
          "16,28,128,128,3,1,1", "16,14,256,256,3,1,1", "16,7,512,512,3,1,1"]


def torch_layer(torch, name, memory, compiled):
    n, side, c, c_out, kernel, stride, padding = (int(v) for v in name.split(","))
    layer = torch.nn.Conv2d(c, c_out, kernel, stride, padding).to(memory_format=memory)
    x = torch.randn(n, c, side, side).to(memory_format=memory).requires_grad_(c >= 8)
    with torch.no_grad():
        dy = torch.randn_like(layer(x))
    forward = torch.nn.Sequential(layer, torch.nn.ReLU())
    if compiled:
        forward = torch.compile(forward)

    def step():
        layer.zero_grad(set_to_none=True)
        x.grad = None
        forward(x).backward(dy)
    return step


def milliseconds(step, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def serve_torch(layers):
    """The protocol of bench_conv."""
    import torch
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    steps = []
    for name in layers:
        ways = [torch_layer(torch, name, memory, compiled)
                for memory in (torch.contiguous_format, torch.channels_last) for compiled in (False, True)]
        for step in ways:
            milliseconds(step, 2)
        steps.append(min(ways, key=lambda step: min(milliseconds(step, 4))))
    print("ready", flush=True)
    for line in sys.stdin:
        index, count = (int(word) for word in line.split())
        print(json.dumps({"ms": milliseconds(steps[index], count)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("layers", nargs="*", default=LAYERS)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    environment = dict(os.environ, OMP_NUM_THREADS=arguments.threads)
    pair = [subprocess.Popen(command + arguments.layers, stdin=subprocess.PIPE, text=True,
                             stdout=subprocess.PIPE, env=environment)
            for command in ([arguments.program], [sys.executable, __file__, "serve-torch"])]
    for process in pair:
        if process.stdout.readline().strip() != "ready":
            sys.exit("a side did not start")
    for index, name in enumerate(arguments.layers):
        ours, theirs, gflop = [], [], 0.0
        for _ in range(arguments.rounds):
            answers = []
            for process in pair:
                process.stdin.write(f"{index} 4\n")
                process.stdin.flush()
                answers.append(json.loads(process.stdout.readline()))
            mine, other = answers
            ours += [f + b for f, b in zip(mine["forward_ms"], mine["backward_ms"])]
            theirs += other["ms"]
            gflop = mine["forward_gflop"] + mine["backward_gflop"]
        print(json.dumps({
            "layer": name, "threads": int(arguments.threads), "n": len(ours),
            "whisker_min_ms": round(min(ours), 3), "torch_min_ms": round(min(theirs), 3),
            "ratio_min": round(min(theirs) / min(ours), 3),
            "whisker_median_ms": round(statistics.median(ours), 3),
            "torch_median_ms": round(statistics.median(theirs), 3),
            "ratio_median": round(statistics.median(theirs) / statistics.median(ours), 3),
            "whisker_gflops": round(gflop / min(ours) * 1e3, 1)}), flush=True)
    for process in pair:
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "serve-torch":
        serve_torch(sys.argv[2:])
    else:
        main()
