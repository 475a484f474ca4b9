#!/usr/bin/env python3
"""Training steps of Whisker and PyTorch on one device, in alternation: the rows of bench_step.

usage: compare_pytorch.py BENCH_STEP [--device cpu|cuda] [--rows ROW ...] [--modes MODE ...] [--rounds N] [--threads N]
                          [--gpus N ...]
--gpus 1 2: each row on one GPU, then on two, the batch being that of a GPU; PyTorch by DistributedDataParallel, eager
and compiled. scaling is images/s against the first number of GPUs.
Run it with a Python that has torch and torchvision. A row is MODEL:BATCH:PRECISION. Each round runs bench_step, then
PyTorch (torch_step.py) in every mode, each in a process of its own; PyTorch's fastest mode counts. Prints one JSON line
per row: median milliseconds of both, their ratio, the floor under Whisker's step (layers/analysis/step_work.h, with the
ceilings measured in the same runs) with its operations and bytes, the distance to it, memory of both (on a CPU
resident, of the whole process, with the libraries and what compiling took; on a GPU reserved for the captured step, or
at most where PyTorch is eager, without what warm-up and compiling took). Append the lines to
bench/results/DATE-MACHINE.jsonl.
"""
import argparse
import contextlib
import json
import os
import pathlib
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from machine import machine

DEFAULTS = {
    "cpu": {"rows": ["keras64:32:f32", "chollet128:32:f32", "resnet18:16:f32", "lstm:64:f32", "gru:64:f32", "rnn:64:f32",
                     "mobilenet_v3_small:16:f32", "efficientnet_b0:8:f32"],
            "modes": ["eager", "contiguous", "compiled"]},
    "cuda": {"rows": ["keras64:32:f32", "mlp:32:f32", "chollet128:32:bf16", "chollet128:256:bf16", "vgg16ft:64:bf16",
                      "resnet18:256:bf16", "resnet50:256:bf16", "resnet50:256:f16", "lstm:64:f32", "lstm:64:bf16",
                      "gru:64:bf16", "rnn:64:bf16",
                      "mobilenet_v3_large:256:bf16", "efficientnet_b0:128:bf16", "convnext_tiny:128:bf16",
                      "vit_s_16:128:bf16", "vit_b_16:64:bf16"],
             "modes": ["eager", "captured", "compiled", "autotuned"]},
}
TORCH_STEP = pathlib.Path(__file__).with_name("torch_step.py")


def environments(ranks, threads):
    """Of each rank's process."""
    common = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    if ranks == 1:
        return [common]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(ranks),
                   "WHISKER_SECRET": secrets.token_hex(16), "NCCL_NVLS_ENABLE": "0"}
    return [common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def child(command, threads, ranks=1):
    """The last line of a program's output, rank 0's, as JSON; None when it failed (said on stderr)."""
    with contextlib.ExitStack() as files:
        outputs = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2 * ranks)]
        processes = [subprocess.Popen(command, env=environment, stdout=outputs[2 * rank], stderr=outputs[2 * rank + 1])
                     for rank, environment in enumerate(environments(ranks, threads))]
        failed, codes = None, [None]
        while failed is None and None in codes:
            time.sleep(0.05)
            codes = [process.poll() for process in processes]
            failed = next((rank for rank, code in enumerate(codes) if code), None)
        for output in outputs:
            output.seek(0)
        if failed is None:
            return json.loads(outputs[0].read().strip().splitlines()[-1])
        for process in processes:  # the others would wait for it
            process.kill()
            process.wait()
        print(f"{' '.join(command)}: rank {failed} exits with {processes[failed].returncode}\n"
              f"{outputs[2 * failed + 1].read()[-2000:]}", file=sys.stderr, flush=True)
        return None


def compare(row, ranks, single, arguments):
    """Prints a row's line and returns it; None when a program failed. single: the line of the fewest GPUs, if any."""
    name, batch, precision = row.split(":")
    slow = arguments.device == "cpu" and name not in ("keras64", "chollet128", "mlp")
    groups, steps = ("5", "1") if slow else ("20", "3")
    common = [name, "--device", arguments.device, "--batch", batch, "--precision", precision,
              "--groups", groups, "--steps", steps]
    ours, theirs = [], {mode: [] for mode in arguments.modes}
    for _ in range(arguments.rounds):
        ours.append(child([arguments.bench_step, *common], arguments.threads, ranks))
        for mode in arguments.modes:
            theirs[mode].append(child([sys.executable, str(TORCH_STEP), *common, "--mode", mode], arguments.threads,
                                      ranks))
    median = lambda lines, key: statistics.median(line[key] for line in lines)
    theirs = {mode: lines for mode, lines in theirs.items() if all(lines)}
    if not all(ours) or not theirs:
        return None
    best = min(theirs, key=lambda mode: median(theirs[mode], "milliseconds"))
    memory = (lambda line: line["resident_mib"]) if arguments.device == "cpu" else (lambda line: line["peak_bytes"] / 2**20)
    whisker, pytorch = median(ours, "milliseconds"), median(theirs[best], "milliseconds")
    line = {
        "what": "training step, side by side", **machine(arguments.device),
        "id": name, "batch": int(batch), "precision": precision, "device": arguments.device, "threads": arguments.threads,
        "whisker_ms": round(whisker, 4), "pytorch_ms": round(pytorch, 4), "ratio": round(whisker / pytorch, 3),
        "pytorch_mode": best, "pytorch": theirs[best][0]["torch"], "pytorch_cudnn": theirs[best][0]["cudnn"],
        "pytorch_all_ms": {mode: round(median(lines, "milliseconds"), 4) for mode, lines in theirs.items()},
        "operations": ours[0]["operations"], "bytes": ours[0]["bytes"],
        "floor_ms": round(median(ours, "floor_ms"), 4), "over_floor": round(whisker / median(ours, "floor_ms"), 2),
        "ceiling_tflops": round(median(ours, "ceiling_tflops"), 1), "ceiling_gb_per_s": round(median(ours, "ceiling_gb_per_s")),
        "whisker_mib": round(statistics.median(map(memory, ours))),
        "pytorch_mib": round(statistics.median(map(memory, theirs[best])))}
    if ranks > 1:
        rate = lambda milliseconds: round(ranks * int(batch) / milliseconds * 1e3)
        line |= {"ranks": ranks, "whisker_images_per_s": rate(whisker), "pytorch_images_per_s": rate(pytorch),
                 "sum_share": round(median(ours, "sum_share"), 4)}
        if single:
            fewer = single.get("ranks", 1)
            line |= {"scaling": round(ranks / fewer * single["whisker_ms"] / whisker, 3),
                     "pytorch_scaling": round(ranks / fewer * single["pytorch_ms"] / pytorch, 3)}
    print(json.dumps(line), flush=True)
    return line


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench_step")
    parser.add_argument("--device", default="cpu", choices=sorted(DEFAULTS))
    parser.add_argument("--rows", nargs="+")
    parser.add_argument("--modes", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--gpus", nargs="+", type=int, default=[1])
    arguments = parser.parse_args()
    arguments.rows = arguments.rows or DEFAULTS[arguments.device]["rows"]
    several = max(arguments.gpus) > 1
    if several and arguments.device == "cpu":
        parser.error("--gpus is for --device cuda")
    arguments.modes = arguments.modes or (["eager", "compiled"] if several else DEFAULTS[arguments.device]["modes"])
    failed = False
    for row in arguments.rows:
        single = None
        for ranks in arguments.gpus:
            line = compare(row, ranks, single, arguments)
            single, failed = single or line, failed or line is None
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
