#!/usr/bin/env python3
"""Writes tests/layers/recurrent_traces.json: what PyTorch's RNN, LSTM and GRU compute on small
inputs, in double. Every case holds its inputs, parameters, results, last states and the gradients of
sum(weights * result) with those same weights on y and the last states.

usage: make_recurrent_traces.py [OUTPUT]
"""

import json
import pathlib
import sys

import torch

T, N, F, H = 3, 2, 2, 2
LENGTHS = [2, 3]
KINDS = {
    "rnn_tanh": lambda **o: torch.nn.RNN(F, H, nonlinearity="tanh", **o),
    "rnn_relu": lambda **o: torch.nn.RNN(F, H, nonlinearity="relu", **o),
    "lstm": lambda **o: torch.nn.LSTM(F, H, **o),
    "gru": lambda **o: torch.nn.GRU(F, H, **o),
}


def numbers(tensor):
    return [round(value, 7) for value in tensor.detach().flatten().tolist()]


def uniform(*shape):
    """In [-1, 1] with two decimals, so that the file holds the very inputs."""
    return (torch.rand(*shape, dtype=torch.float64) * 200 - 100).round() / 100


def run(kind, layers, bidirectional, lengths, projection, bias):
    options = {"num_layers": layers, "bidirectional": bidirectional, "bias": bias}
    if projection:
        options["proj_size"] = projection
    net = KINDS[kind](**options).double()
    for parameter in net.parameters():
        parameter.data = uniform(*parameter.shape)
    cells, output = layers * (2 if bidirectional else 1), projection or H
    x = uniform(T, N, F).requires_grad_()
    states = [uniform(cells, N, output).requires_grad_()]
    if kind == "lstm":
        states.append(uniform(cells, N, H).requires_grad_())
    start = tuple(states) if kind == "lstm" else states[0]
    if lengths:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        y, last = net(packed, start)
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=T)
    else:
        y, last = net(x, start)
    results = [y, *last] if kind == "lstm" else [y, last]
    weights = [uniform(*result.shape) for result in results]
    sum((w * result).sum() for w, result in zip(weights, results)).backward()
    return {
        "kind": kind,
        "layers": layers,
        "bidirectional": bidirectional,
        "lengths": LENGTHS if lengths else [],
        "projection": projection,
        "bias": bias,
        "x": numbers(x),
        "dx": numbers(x.grad),
        "states": [numbers(state) for state in states],
        "dstates": [numbers(state.grad) for state in states],
        "results": [numbers(result) for result in results],
        "weights": [numbers(w) for w in weights],
        "parameters": {name: numbers(p) for name, p in net.named_parameters()},
        "gradients": {name: numbers(p.grad) for name, p in net.named_parameters()},
    }


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else root / "tests/layers/recurrent_traces.json")
    torch.manual_seed(1)
    cases = []
    for kind in KINDS:
        cases.append(run(kind, 1, False, False, projection=0, bias=True))
        cases.append(run(kind, 1, True, True, projection=0, bias=False))
        cases.append(run(kind, 2, True, True, projection=0, bias=True))
    cases.append(run("lstm", 2, True, True, projection=1, bias=True))
    header = {"steps": T, "batch": N, "features": F, "hidden": H, "torch": torch.__version__}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(json.dumps(header)[:-1] + ', "cases": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
