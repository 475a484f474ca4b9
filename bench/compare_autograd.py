#!/usr/bin/env python3
"""Autograd overhead beside PyTorch's, in alternation: one-element chains, nanoseconds of
processor time per operator.

usage: compare_autograd.py BENCH_PROGRAM [--rounds N] [--repeats N]
Run it with a Python that has torch. Prints one JSON line per operator, medians over the repeats.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch

CHAIN = 1000


def torch_rows(rounds):
    x = torch.full((1,), 0.5, requires_grad=True)
    w = torch.full((1,), 0.999, requires_grad=True)
    operators = {
        "mul": lambda y: y * w,
        "add": lambda y: y + w,
        "scale": lambda y: y * 0.999,
        "tanh": torch.tanh,
    }
    rows = {}
    for name, operator in operators.items():
        forward, backward = [], []
        for _ in range(rounds):
            x.grad = w.grad = None
            start = time.process_time_ns()
            y = x
            for _ in range(CHAIN):
                y = operator(y)
            middle = time.process_time_ns()
            y.backward()
            del y
            end = time.process_time_ns()
            forward.append((middle - start) / CHAIN)
            backward.append((end - middle) / CHAIN)
        rows[name] = (statistics.median(forward), statistics.median(backward))
    return rows


def whisker_rows(program, rounds):
    text = subprocess.run([program, "--rounds", str(rounds)], check=True, capture_output=True,
                          text=True).stdout
    rows = map(json.loads, text.splitlines())
    return {row["op"]: (row["forward_ns"], row["backward_ns"]) for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("usage")[0])
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ours, theirs = [], []
    for _ in range(options.repeats):
        ours.append(whisker_rows(options.program, options.rounds))
        theirs.append(torch_rows(options.rounds))
    for op in ours[0]:
        a = [statistics.median(run[op][i] for run in ours) for i in range(2)]
        b = [statistics.median(run[op][i] for run in theirs) for i in range(2)]
        print(json.dumps({
            "bench": "autograd_overhead", "op": op,
            "whisker_forward_ns": round(a[0]), "whisker_backward_ns": round(a[1]),
            "whisker_both_ns": round(sum(a)),
            "torch_forward_ns": round(b[0]), "torch_backward_ns": round(b[1]),
            "torch_both_ns": round(sum(b)), "torch": torch.__version__,
            "ratio": round(sum(b) / sum(a), 2)}))


if __name__ == "__main__":
    main()
