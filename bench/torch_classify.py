#!/usr/bin/env python3
"""Photographs classified by PyTorch from a cold start: the peer of `whisker classify`. Prints one JSON line.

usage: torch_classify.py IMAGE ... [--device cpu|cuda] [--model resnet18] [--weights FILE] [--workers N] [--batch 16]
A torchvision network, with the state dict in FILE where one is given. Several images come in batches from a DataLoader
with so many workers, and the network is channels_last. seconds is the time from the start of the process to the last
answer; what ending the process takes comes on top, as `time python3 bench/torch_classify.py` shows.
"""
import argparse
import json

import torch
import torchvision
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

from torch_end_to_end import seconds_since_start


PREPARE = v2.Compose([v2.Resize(256, antialias=True), v2.CenterCrop(224), v2.ToDtype(torch.float32, scale=True),
                      v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])


class Photographs(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return PREPARE(decode_jpeg(read_file(self.paths[index]), mode=ImageReadMode.RGB))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("images", nargs="+", metavar="IMAGE")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--weights")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()
    model = torchvision.models.get_model(options.model, weights=None).eval()
    if options.weights:
        model.load_state_dict(torch.load(options.weights, weights_only=True))
    model.to(options.device)
    batches = Photographs(options.images)
    if len(options.images) == 1:
        batches = [batches[0][None]]
    else:
        model.to(memory_format=torch.channels_last)
        batches = torch.utils.data.DataLoader(batches, options.batch, num_workers=options.workers)
    results = []
    with torch.inference_mode():
        for batch in batches:
            batch = batch.to(options.device)
            if len(options.images) > 1:
                batch = batch.contiguous(memory_format=torch.channels_last)
            best = model(batch).softmax(1).max(1)
            results += zip(best.indices.tolist(), best.values.tolist())
    print(json.dumps({"id": "classify", "device": options.device, "images": len(results), "class": results[0][0],
                      "probability": round(results[0][1], 4), "seconds": round(seconds_since_start(), 2),
                      "torch": torch.__version__, "torchvision": torchvision.__version__}))


if __name__ == "__main__":
    main()
