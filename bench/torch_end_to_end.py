#!/usr/bin/env python3
"""PyTorch's training speed from JPEG files: the peer of bench_end_to_end. Prints one JSON line.

usage: torch_end_to_end.py FOLDER-OF-CLASS-FOLDERS [--mode loader|eager|compiled] [--device cuda] [--side 224]
                           [--batch 256] [--workers 16] [--batches 200] [--precision bf16|f32]
MODE: loader (batches made and thrown away: decode_jpeg, random resized crop with antialias, flip); eager, compiled (a
ResNet-18 trained on the loader's batches, the latter by torch.compile: normalised on the device, channels_last, fused
Adam, cross-entropy). first_s is the time from the start of the process to the end of its first step, or its first
batch. Files are read again and again, so after the first time from the system's page cache; as many batches as are
timed run before.
"""
import argparse
import json
import os
import time

import torch
import torchvision
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2


def seconds_since_start():
    """Of this process: Linux keeps its start in clock ticks since boot."""
    with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:
        start = int(stat.read().rsplit(")", 1)[1].split()[19])
        return float(uptime.read().split()[0]) - start / os.sysconf("SC_CLK_TCK")


class Repeated(torch.utils.data.Dataset):
    """`length` images, a folder's again and again, so that no epoch ends within a measurement."""

    def __init__(self, folder, side, length):
        self.samples, self.length = torchvision.datasets.ImageFolder(folder).samples, length
        self.augment = v2.Compose([v2.RandomResizedCrop(side, antialias=True), v2.RandomHorizontalFlip()])

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        path, label = self.samples[index % len(self.samples)]
        return self.augment(decode_jpeg(read_file(path), mode=ImageReadMode.RGB)), label


def batches_of(options, dataset):
    return torch.utils.data.DataLoader(
        dataset, options.batch, shuffle=True, num_workers=options.workers, drop_last=True,
        pin_memory=options.device == "cuda", prefetch_factor=4 if options.workers else None)


def trained(options, device, batches):
    """Yields after each step."""
    model = torchvision.models.resnet18().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), fused=options.device == "cuda")
    mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1) * 255
    std = torch.tensor([0.229, 0.224, 0.225], device=device).view(1, 3, 1, 1) * 255

    def loss_of(pixels, labels):
        x = ((pixels.float() - mean) / std).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, torch.bfloat16, enabled=options.precision == "bf16"):
            return torch.nn.functional.cross_entropy(model(x), labels)

    if options.mode == "compiled":
        loss_of = torch.compile(loss_of)
    for pixels, labels in batches:
        optimizer.zero_grad()
        loss_of(pixels.to(device, non_blocking=True), labels.to(device, non_blocking=True)).backward()
        optimizer.step()
        yield


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("MODE:")[0].strip())
    parser.add_argument("folder")
    parser.add_argument("--mode", default="eager", choices=("loader", "eager", "compiled"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--precision", default="bf16", choices=("bf16", "f32"))
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = True
    dataset = Repeated(options.folder, options.side, options.batch * (2 * options.batches + 1))
    if options.mode == "loader":
        steps = iter(batches_of(options, dataset))
    else:
        steps = trained(options, device, batches_of(options, dataset))

    def run(count):
        start = time.perf_counter()
        for _ in range(count):
            next(steps)
        if options.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    run(1)
    first = seconds_since_start()
    run(options.batches)
    seconds = run(options.batches)
    print(json.dumps({"id": options.mode, "batch": options.batch, "workers": options.workers, "device": options.device,
                      "images_per_s": round(options.batch * options.batches / seconds, 1),
                      "milliseconds": round(1e3 * seconds / options.batches, 3), "first_s": round(first, 2),
                      "torch": torch.__version__, "torchvision": torchvision.__version__}))


if __name__ == "__main__":
    main()
