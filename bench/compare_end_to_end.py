#!/usr/bin/env python3
"""Training from JPEG files, Whisker and PyTorch in turns on one GPU: bench_end_to_end beside torch_end_to_end.py.

usage: compare_end_to_end.py BENCH_END_TO_END FOLDER-OF-CLASS-FOLDERS [--rounds N] [--device cuda] [--side 224]
                             [--batch 256] [--workers 16] [--batches 200]
Run it with a Python that has torch and torchvision. Every line of both programs is printed as it comes, then one JSON
line for each pair: median images per second of both and the ratio. Batches made and thrown away: fast and exact
decoding against decode_jpeg in as many processes. Training: a ResNet-18 in bf16, by the CPU's fast decoding, against
eager and compiled.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

TORCH = pathlib.Path(__file__).with_name("torch_end_to_end.py")
PAIRS = [(("loader", "fast"), "loader"), (("loader", "exact"), "loader"),
         (("training", "fast"), "eager"), (("training", "fast"), "compiled")]


def lines_of(command):
    """What a program printed, as JSON, one by one; nothing when it failed (said on stderr)."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        words = " ".join(map(str, command))
        print(f"{words}: exit {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr, flush=True)
        return []
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    print("\n".join(lines), flush=True)
    return [line for line in map(json.loads, lines) if "images_per_s" in line]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("Run it")[0].strip())
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    for option, value in {"side": "224", "batch": "256", "workers": "16", "batches": "200"}.items():
        parser.add_argument(f"--{option}", default=value)
    options = parser.parse_args()
    common = [options.folder]
    for option in ("device", "side", "batch", "workers", "batches"):
        common += [f"--{option}", getattr(options, option)]
    ours, theirs = {}, {}
    for _ in range(options.rounds):
        for line in lines_of([options.program, *common]):
            ours.setdefault((line["id"], line["decode"]), []).append(line["images_per_s"])
        for mode in ("loader", "eager", "compiled"):
            for line in lines_of([sys.executable, TORCH, *common, "--mode", mode]):
                theirs.setdefault(mode, []).append(line["images_per_s"])
    compared = 0
    for key, mode in PAIRS:
        rates = ours.get(key, [])
        if not rates or not rates[0] or mode not in theirs:
            continue
        whisker, pytorch = statistics.median(rates), statistics.median(theirs[mode])
        print(json.dumps({"id": key[0], "decode": key[1], "pytorch_mode": mode, "whisker_images_per_s": round(whisker),
                          "pytorch_images_per_s": round(pytorch), "ratio": round(whisker / pytorch, 2)}))
        compared += 1
    return 0 if compared else 1


if __name__ == "__main__":
    sys.exit(main())
