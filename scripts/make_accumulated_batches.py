#!/usr/bin/env python3
"""Writes tests/train/loop/accumulated_batches.json: weights that PyTorch trains with big batches, in float64.

    python3 scripts/make_accumulated_batches.py tests/train/loop/accumulated_batches.json     # needs torch (CPU)

25 images of one colour each, in order; the first 20 are of class a. tests/train/loop/accumulated_batches_test.cpp
trains the same with small batches. Image i (0..24), with b = 1 for i >= 20, has the channels

    (37 i mod 256, (91 i + 40 b) mod 256, (53 i + 128 b) mod 256) / 255

The network: dense 4, tanh, dense 2, cross entropy. Over all parameters in order (weight, bias), the k-th value
starts as ((7 k mod 13) - 6) / 8. Two epochs; an update is of 25 images, or of 16, then 9. Balanced class weights
are images / (classes * images of the class). Values have 9 decimals.
"""
import json
import sys

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)

# Overrides of Whisker and what they are in PyTorch; each with and without class weights.
CASES = [
    (["optimizer.kind=sgd", "optimizer.lr=0.5"], lambda p: torch.optim.SGD(p, lr=0.5)),
    (["optimizer.kind=sgd", "optimizer.lr=0.1", "optimizer.momentum=0.9", "optimizer.nesterov=true",
      "optimizer.weight_decay=0.01"],
     lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
    (["optimizer.kind=adam", "optimizer.lr=0.001"], lambda p: torch.optim.Adam(p, lr=0.001)),
    (["optimizer.kind=adamw", "optimizer.lr=0.001", "optimizer.weight_decay=0.01"],
     lambda p: torch.optim.AdamW(p, lr=0.001, weight_decay=0.01)),
    (["optimizer.kind=rmsprop", "optimizer.lr=0.001"], lambda p: torch.optim.RMSprop(p, lr=0.001)),
    (["optimizer.kind=sgd", "optimizer.lr=0.5", "optimizer.clip_norm=0.05"], lambda p: torch.optim.SGD(p, lr=0.5)),
    (["optimizer.kind=sgd", "optimizer.lr=0.5", "optimizer.clip_value=0.01"], lambda p: torch.optim.SGD(p, lr=0.5)),
]
# Images per update, and the batches that make them.
BATCHES = {25: [(8, 4), (5, 5), (25, 1)], 16: [(8, 2), (4, 4), (16, 1)]}


def trained(make_optimizer, update, weighted, clip_norm, clip_value):
    i = torch.arange(25)
    b = (i >= 20).long()
    images = torch.stack([37 * i % 256, (91 * i + 40 * b) % 256, (53 * i + 128 * b) % 256], 1).double() / 255
    class_weights = torch.tensor([25 / (2 * 20), 25 / (2 * 5)]) if weighted else None
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    parameters = list(net.parameters())
    k = 0
    for parameter in parameters:
        values = [(7 * n % 13 - 6) / 8 for n in range(k, k + parameter.numel())]
        k += parameter.numel()
        parameter.data = torch.tensor(values).reshape(parameter.shape)
    optimizer = make_optimizer(parameters)
    for _ in range(2):
        for begin in range(0, 25, update):
            part = slice(begin, begin + update)
            optimizer.zero_grad()
            F.cross_entropy(net(images[part]), b[part], weight=class_weights).backward()
            if clip_norm:
                torch.nn.utils.clip_grad_norm_(parameters, clip_norm)
            if clip_value:
                torch.nn.utils.clip_grad_value_(parameters, clip_value)
            optimizer.step()
    return [round(value, 9) for parameter in parameters for value in parameter.data.flatten().tolist()]


def number(overrides, key):
    return next((float(one.split("=")[1]) for one in overrides if one.startswith(key + "=")), 0)


def main():
    cases = []
    for overrides, make_optimizer in CASES:
        for weighted in (False, True):
            for update, batches in BATCHES.items():
                cases.append({
                    "overrides": overrides + ["loss.class_weights=balanced"] * weighted,
                    "batches": [[f"train.batch_size={size}"] + [f"train.accumulate={count}"] * (count > 1)
                                for size, count in batches],
                    "weights": trained(make_optimizer, update, weighted, number(overrides, "optimizer.clip_norm"),
                                       number(overrides, "optimizer.clip_value"))})
    made_by = (f"scripts/make_accumulated_batches.py: PyTorch {torch.__version__.split('+')[0]} in f64: big batches "
               "of 25 images of one colour, 2 epochs; see accumulated_batches_test.cpp")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(json.dumps({"made_by": made_by, "cases": "@"}).replace(
            '"@"', "[\n" + ",\n".join(" " + json.dumps(case) for case in cases) + "\n]"))
        file.write("\n")


main()
