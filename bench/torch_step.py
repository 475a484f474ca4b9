#!/usr/bin/env python3
"""One training step in PyTorch, timed: the peer of bench_step. Prints one JSON line.

usage: torch_step.py ROW [--device cpu|cuda] [--batch N] [--precision f32|bf16|f16] [--mode MODE] [--groups N] [--steps N]
MODE: eager; captured (the whole step as a CUDA graph); compiled, autotuned (torch.compile, the latter with
max-autotune, and then captured where the device is a GPU); contiguous (eager in PyTorch's default layout, CPU only).
Started as several ranks (compare_pytorch.py --gpus, torchrun), every rank takes --batch examples, gradients are those of
DistributedDataParallel, modes are eager and compiled, and rank 0 prints.
Images are channels_last, the optimizer is the fused Adam, the loss cross-entropy, inputs are on the device already.
"""
import argparse
import gc
import json
import os
import resource
import statistics
import time

import torch
import torch.nn as nn

ROWS = {  # batch, side, classes
    "keras64": (32, 64, 2), "chollet128": (32, 128, 2), "resnet18": (16, 224, 1000), "resnet50": (16, 224, 1000),
    "mobilenet_v3_small": (16, 224, 1000), "mobilenet_v3_large": (256, 224, 1000), "efficientnet_b0": (8, 224, 1000),
    "convnext_tiny": (128, 224, 1000), "vit_s_16": (128, 224, 1000), "vit_b_16": (64, 224, 1000),
    "vgg16ft": (64, 224, 2), "mlp": (32, None, 32), "lstm": (64, None, 10), "gru": (64, None, 10), "rnn": (64, None, 10),
}
RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
RECURRENT = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class LastStep(nn.Module):
    """Two recurrent layers, and a dense layer on the last step."""

    def __init__(self, row, classes):
        super().__init__()
        self.layers = RECURRENT[row](256, 512, num_layers=2)
        self.head = nn.Linear(512, classes)

    def forward(self, x):
        return self.head(self.layers(x)[0][-1])


def build(row, classes):
    if row in RECURRENT:
        return LastStep(row, classes)
    import torchvision

    def conv(channels, filters):
        return [nn.Conv2d(channels, filters, 3), nn.ReLU(), nn.MaxPool2d(2)]

    if row == "keras64":
        return nn.Sequential(*conv(3, 32), *conv(32, 32), nn.Flatten(), nn.Linear(32 * 14 * 14, 128), nn.ReLU(),
                             nn.Linear(128, classes))
    if row == "chollet128":
        return nn.Sequential(*conv(3, 32), *conv(32, 64), *conv(64, 128), *conv(128, 128), nn.Flatten(),
                             nn.Dropout(0.5), nn.Linear(6 * 6 * 128, 512), nn.ReLU(), nn.Linear(512, classes))
    if row == "vgg16ft":
        features = torchvision.models.vgg16().features.requires_grad_(False)
        return nn.Sequential(features, nn.Flatten(), nn.Linear(25088, 128), nn.ReLU(), nn.Linear(128, classes))
    if row == "mlp":
        return nn.Sequential(*[layer for _ in range(20) for layer in (nn.Linear(32, 32), nn.ReLU())])
    if row == "vit_s_16":
        return torchvision.models.VisionTransformer(224, 16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536)
    return getattr(torchvision.models, row)(num_classes=classes)


class Step:
    """Forward, backward and optimizer over fixed inputs, run or replayed by __call__."""

    def __init__(self, arguments):
        batch, side, classes = ROWS[arguments.row]
        batch = arguments.batch or batch
        device = torch.device(arguments.device)
        if RANKS > 1:
            if device.type == "cuda":
                device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", RANK)))
                torch.cuda.set_device(device)
            torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        layout = torch.contiguous_format if arguments.mode == "contiguous" else torch.channels_last
        model = build(arguments.row, classes).to(device).train()
        if side:
            model = model.to(memory_format=layout)
            inputs = torch.randn(batch, 3, side, side, device=device).to(memory_format=layout)
        elif arguments.row in RECURRENT:
            inputs = torch.randn(128, batch, 256, device=device)
        else:
            inputs = torch.randn(batch, 32, device=device)
        labels = torch.arange(batch, device=device) % classes
        parameters = [p for p in model.parameters() if p.requires_grad]
        if RANKS > 1:
            model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
        captured = arguments.device == "cuda" and RANKS == 1 and arguments.mode in ("captured", "compiled", "autotuned")
        self.optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=True, capturable=captured)
        self.narrow = {"bf16": torch.bfloat16, "f16": torch.float16}.get(arguments.precision)
        self.device, self.inputs, self.labels, self.batch = device, inputs, labels, batch
        self.model = model
        if arguments.mode in ("compiled", "autotuned"):
            mode = "max-autotune-no-cudagraphs" if arguments.mode == "autotuned" else None
            self.model = torch.compile(model, mode=mode)
        self.graph = None
        for _ in range(3):
            self.eager()
        if captured:
            self.capture()

    def eager(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, dtype=self.narrow, enabled=self.narrow is not None):
            loss = nn.functional.cross_entropy(self.model(self.inputs), self.labels)
        # f16 with a constant scale, which Adam divides out: no search for infinities, which would cost PyTorch time.
        (loss * 1024 if self.narrow is torch.float16 else loss).backward()
        self.optimizer.step()

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.eager()
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.empty_cache()  # what eager steps and compiling left behind is not the captured step's
        torch.cuda.reset_peak_memory_stats()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.eager()
        self.graph = graph

    def __call__(self):
        self.graph.replay() if self.graph else self.eager()


def measure(step, groups, steps):
    """Milliseconds per step, one figure per group."""
    times = []
    if step.device.type == "cuda":
        for _ in range(10):
            step()
        for _ in range(groups):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(steps):
                step()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / steps)
        return times
    for _ in range(groups):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        times.append((time.perf_counter() - start) / steps * 1e3)
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("row", choices=sorted(ROWS))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16", "f16"])
    parser.add_argument("--mode", default="eager", choices=["eager", "contiguous", "captured", "compiled", "autotuned"])
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--steps", type=int, default=3)
    arguments = parser.parse_args()
    if (arguments.mode, arguments.device) in (("captured", "cpu"), ("contiguous", "cuda")):
        parser.error(f"--mode {arguments.mode} is not for --device {arguments.device}")
    if RANKS > 1 and arguments.mode not in ("eager", "compiled"):
        parser.error(f"--mode {arguments.mode} is not for several ranks")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    step = Step(arguments)
    times = measure(step, arguments.groups, arguments.steps)
    if RANKS > 1:
        torch.distributed.destroy_process_group()
    if RANK > 0:
        return
    on_gpu = arguments.device == "cuda"
    print(json.dumps({
        "id": arguments.row, "batch": step.batch, "precision": arguments.precision, "device": arguments.device,
        "mode": arguments.mode, "ranks": RANKS, "milliseconds": statistics.median(times), "min": min(times), "max": max(times),
        "groups": arguments.groups, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
        "peak_bytes": torch.cuda.max_memory_reserved() if on_gpu else 0,
        "resident_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
