#!/usr/bin/env python3
"""One photograph classified by PyTorch from a cold start: the peer of `whisker classify`. Prints one JSON line.

usage: torch_classify.py IMAGE [--device cpu|cuda] [--weights FILE]
A torchvision ResNet-18, with the state dict in FILE where one is given. seconds is the time from the start of the process
to the answer; what ending the process takes comes on top, as `time python3 bench/torch_classify.py` shows.
"""
import argparse
import json

import torch
import torchvision
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

from torch_end_to_end import seconds_since_start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("image")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--weights")
    options = parser.parse_args()
    model = torchvision.models.resnet18().eval()
    if options.weights:
        model.load_state_dict(torch.load(options.weights, weights_only=True))
    model.to(options.device)
    prepare = v2.Compose([v2.Resize(256, antialias=True), v2.CenterCrop(224), v2.ToDtype(torch.float32, scale=True),
                          v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    image = prepare(decode_jpeg(read_file(options.image), mode=ImageReadMode.RGB))
    with torch.inference_mode():
        best = model(image[None].to(options.device)).softmax(1).max(1)
    print(json.dumps({"id": "classify", "device": options.device, "class": int(best.indices[0]),
                      "probability": round(float(best.values[0]), 4), "seconds": round(seconds_since_start(), 2),
                      "torch": torch.__version__, "torchvision": torchvision.__version__}))


if __name__ == "__main__":
    main()
