#!/usr/bin/env python3
"""What a user waits for: raw lines of cold starts beside PyTorch, in turns, and of whole training runs.

usage: compare_runs.py WHISKER DATA [--device cpu|cuda] [--what first_step classify accuracy photographs]
                       [--rounds 5] [--seeds 5] [--configs FILE ...] [--photographs 1000] [--threads N] [--batch 16]
                       [--no-peer] [--set SECTION.KEY=VALUE ...]
WHISKER is the program, DATA a folder with train/ and val/, each with class folders of JPEG files. One JSON line for
each: append them to bench/results/DATE-MACHINE.jsonl. Seconds are those of the wall clock.
first_step: from the start of the process to the end of the first training step, of a ResNet-18 on crops of 224 pixels
from JPEG files, scanning included; torch_end_to_end.py eager and compiled beside it. classify: one photograph by a
ResNet-18 from a cold start to the end of the process; torch_classify.py beside it. These two want a Python with torch
and torchvision; --no-peer runs Whisker alone. accuracy: each configuration (configs/cats_vs_dogs.yaml) with seeds 1, 2,
...: validation accuracy after the last epoch, and seconds from start to end of the program. photographs (not by
default, needs torch): whole processes that classify DATA/val's first 1,000 by a SqueezeNet, of the same weights on both
sides; PyTorch with 0 and 2 loading workers.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from machine import SOURCE, machine

BENCH = pathlib.Path(__file__).resolve().parent
FIRST_STEP = " s after the program started"


def fail(command, text):
    sys.exit(f"{' '.join(map(str, command))}: {text}")


class Runs:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        # Nothing that an earlier run has timed: a cold start.
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(scratch / "cache"), OMP_NUM_THREADS=str(options.threads),
                                MKL_NUM_THREADS=str(options.threads))
        self.precision = "f32" if options.device == "cpu" else "bf16"
        data = options.data.resolve()
        self.data = [f"data.train={data / 'train'}", f"data.val={data / 'val'}"]
        self.resnet = ["train", "-v", SOURCE / "configs/cats_vs_dogs_gpu.yaml", f"device={options.device}", "model=resnet18",
                       f"precision={self.precision}", "data.image_size=224", "data.train_image_size=224",
                       "data.resize_short=256", "data.cache=none", f"train.batch_size={options.batch}"]

    def line(self, what, **figures):
        print(json.dumps({"what": what, **machine(self.options.device), "device": self.options.device,
                          "threads": self.options.threads, **figures}), flush=True)

    def folder(self):
        return tempfile.mkdtemp(dir=self.scratch)

    def timed(self, command, folder):
        start = time.monotonic()
        done = subprocess.run(command, cwd=folder, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            fail(command, f"exit {done.returncode}\n{done.stderr[-2000:]}")
        return time.monotonic() - start, done.stdout

    def torch(self, script, *words):
        """The last line of a script's output, with the seconds it took."""
        seconds, said = self.timed([sys.executable, BENCH / script, *words, "--device", self.options.device], self.scratch)
        return {**json.loads(said.strip().splitlines()[-1]), "wall_s": seconds}

    def first_step_of_whisker(self):
        command = [self.options.program, *self.resnet, *self.data]
        with subprocess.Popen(command, cwd=self.folder(), env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as child:
            said = []
            for line in child.stdout:
                said.append(line)
                if line.startswith("first step done") and FIRST_STEP in line:
                    child.send_signal(signal.SIGTERM)
                    child.stdout.read()
                    return float(line.split()[3])
        return fail(command, "no first step\n" + "".join(said[-20:]))

    def first_step(self):
        ours, theirs, version = [], {}, None
        for _ in range(self.options.rounds):
            ours.append(self.first_step_of_whisker())
            for mode in ("eager", "compiled") if self.options.peer else ():
                got = self.torch("torch_end_to_end.py", self.options.data.resolve() / "train", "--mode", mode, "--batch",
                                 str(self.options.batch), "--batches", "1", "--workers", str(self.options.threads),
                                 "--precision", self.precision)
                theirs.setdefault(mode, []).append(got["first_s"])
                version = got["torch"]
        self.pair("first step", ours, theirs, version)

    def classify(self):
        photograph = next(iter(sorted((self.options.data.resolve() / "val").rglob("*.jpg"))), None)
        if not photograph:
            fail([self.options.data], "no .jpg below val/")
        # Any ResNet-18 will do: one of a few steps over drawn images.
        folder = self.folder()
        self.timed([self.options.program, "data", "generate", "drawn", "--per-class", str(self.options.batch),
                    "--val-per-class", "1"], folder)
        self.timed([self.options.program, *self.resnet, "data.train=drawn/train", "data.val=drawn/val", "train.epochs=1"],
                   folder)
        weights = next(pathlib.Path(folder).rglob("best.safetensors"))
        command = [self.options.program, "classify", weights, photograph, "--device", self.options.device]
        self.timed(command, folder)  # pages of program and weights come from the system's cache, on both sides
        ours, theirs, version = [], {}, None
        for _ in range(self.options.rounds):
            ours.append(self.timed(command, folder)[0])
            if self.options.peer:
                got = self.torch("torch_classify.py", photograph)
                theirs.setdefault("eager", []).append(got["wall_s"])
                version = got["torch"]
        self.pair("classify one photograph, cold", ours, theirs, version)

    def photographs(self):
        paths = sorted((self.options.data.resolve() / "val").rglob("*.jpg"))[:self.options.photographs]
        if len(paths) < 2:
            fail([self.options.data], "expected photographs below val/")
        weights = self.scratch / "squeezenet1_1.pth"
        self.timed([sys.executable, "-c", "import sys, torch, torchvision; torch.save(torchvision.models.squeezenet1_1()"
                    ".state_dict(), sys.argv[1])", weights], self.scratch)
        command = [self.options.program, "classify", weights, *paths, "--device", self.options.device, "--batch-size",
                   str(self.options.batch)]
        ours, theirs, version = [], {}, None
        for _ in range(self.options.rounds):
            ours.append(self.timed(command, self.scratch)[0])
            for workers in ("0", "2") if self.options.peer else ():
                got = self.torch("torch_classify.py", *paths, "--model", "squeezenet1_1", "--weights", weights, "--workers",
                                 workers, "--batch", str(self.options.batch))
                theirs.setdefault(f"{workers} workers", []).append(got["wall_s"])
                version = got["torch"]
        self.pair(f"classify {len(paths)} photographs", ours, theirs, version, "squeezenet1_1")

    def pair(self, what, ours, theirs, version, network="resnet18"):
        figures = {"id": network, "precision": self.precision, "whisker_s": [round(s, 3) for s in ours]}
        if theirs:
            best = min(theirs, key=lambda mode: statistics.median(theirs[mode]))
            figures |= {"pytorch_s": {mode: [round(s, 3) for s in seconds] for mode, seconds in theirs.items()},
                        "pytorch_mode": best, "pytorch": version,
                        "ratio": round(statistics.median(ours) / statistics.median(theirs[best]), 3)}
        self.line(what, **figures)

    def accuracy(self):
        for config in self.options.configs:
            accuracies, seconds = [], []
            seeds = list(range(1, self.options.seeds + 1))
            for seed in seeds:
                folder = pathlib.Path(self.folder())
                command = [self.options.program, "train", config.resolve(), f"device={self.options.device}", f"seed={seed}",
                           *self.data, *self.options.set]
                seconds.append(round(self.timed(command, folder)[0], 2))
                metrics = next(folder.rglob("metrics.jsonl")).read_text(encoding="utf-8").splitlines()
                last = [line for line in map(json.loads, metrics) if line["kind"] == "epoch"][-1]
                accuracies.append(round(last["val_accuracy"], 4))
                print(f"{config.name} seed {seed}: {accuracies[-1]:.4f} in {seconds[-1]} s", file=sys.stderr, flush=True)
            self.line("training run", id=config.name, settings=self.options.set, seeds=seeds, epochs=last["epoch"],
                      accuracy=accuracies, seconds=seconds)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("WHISKER is")[0].strip())
    parser.add_argument("program", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--what", nargs="+", default=["first_step", "classify", "accuracy"],
                        choices=["first_step", "classify", "accuracy", "photographs"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--photographs", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--configs", nargs="+", type=pathlib.Path, default=[SOURCE / "configs/cats_vs_dogs.yaml"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--no-peer", dest="peer", action="store_false")
    parser.add_argument("--set", nargs="+", default=[], metavar="SECTION.KEY=VALUE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runs = Runs(options, pathlib.Path(scratch))
        for what in options.what:
            getattr(runs, what)()


if __name__ == "__main__":
    main()
