#!/usr/bin/env python3
"""Writes tests/layers/torchvision_fixtures.json: what torchvision's networks compute, in float64 on
the CPU, on inputs and weights that the C++ tests make again from the same formula.

  pip install torch torchvision safetensors
  python scripts/make_torchvision_fixtures.py ../shared/data/weights/squeezenet1_1_imagenet.safetensors
"""
import json
import re
import sys
from pathlib import Path

import torch
import torchvision
from safetensors.torch import load_file


def fnv(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def formula(name, count):
    """Element i is ((i + 1) * 2654435761 + fnv(name)) mod 2^32, scaled to [-0.5, 0.5)."""
    index = torch.arange(1, count + 1, dtype=torch.int64)
    words = (index * 2654435761 + fnv(name) % 2**32) % 2**32
    # One more mixing step: consecutive products alone are too regular.
    words = (words ^ (words >> 15)) * 2246822519 % 2**32
    return (words.double() / 2**32 - 0.5).float()


def image(side, batch):
    """(N, C, H, W) from values laid out (N, H, W, C), as the C++ test fills them."""
    values = formula(f"picture{side}", batch * side * side * 3)
    return values.reshape(batch, side, side, 3).permute(0, 3, 1, 2).contiguous() * 4


def digits(values):
    return [float(f"{v:.12g}") for v in values.detach().double().flatten()]


def shown(name, tensor):
    """Eight elements of a gradient or buffer, its largest magnitude, and its product with a
    direction, in which every element counts."""
    values = tensor.detach().flatten()
    count = values.numel()
    at = [(fnv(name) + 2654435761 * i) % count for i in range(8)]
    direction = formula("direction of " + name, count).double()
    return digits(torch.cat([values[at], values.abs().max()[None], (values @ direction)[None]]))


def squeezenet(path):
    net = torchvision.models.squeezenet1_1()
    net.load_state_dict(load_file(path), strict=True)
    net.double().eval()
    with torch.no_grad():
        logits = net(image(100, 2).double())  # a side at which pools that round up differ
    return {"logits": digits(logits.flatten()[::20])}


def resnet18():
    net = torchvision.models.resnet18(num_classes=10)
    state = net.state_dict()
    for name, value in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        draw = formula(name, value.numel()).reshape(value.shape)
        if value.dim() > 1:
            draw = draw * (12 / value[0].numel()) ** 0.5
        elif name.endswith("running_var") or (name.endswith("weight") and value.dim() == 1):
            draw = draw + 1
        state[name] = draw
    net.load_state_dict(state)
    net.double()
    x, target = image(64, 2).double(), torch.tensor([3, 7])
    net.eval()
    with torch.no_grad():
        evaluated = net(x)
    net.train()
    trained = net(x)
    loss = torch.nn.functional.cross_entropy(trained, target)
    loss.backward()
    gradients = {name: shown(name, p.grad) for name, p in net.named_parameters()}
    buffers = {name: shown(name, b) for name, b in net.named_buffers() if "running" in name}
    return {"evaluated": digits(evaluated), "trained": digits(trained), "loss": digits(loss)[0],
            "gradients": gradients, "buffers": buffers}


def main():
    torch.manual_seed(0)
    fixtures = {"torch": torch.__version__, "torchvision": torchvision.__version__,
                "squeezenet1_1": squeezenet(sys.argv[1]), "resnet18": resnet18()}
    path = Path(__file__).parent.parent / "tests/layers/torchvision_fixtures.json"
    # One list of numbers per line.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + " ".join(m.group(1).split()) + "]",
                  json.dumps(fixtures, indent=1))
    path.write_text(text + "\n")


if __name__ == "__main__":
    main()
