#!/usr/bin/env python3
"""What several GPUs and several machines would reach, SIMULATED from measured times of one GPU and of all-reduces
between two. Nothing here is a measurement of a run on them. Prints the table of docs/performance.md.

    python3 bench/simulate_ranks.py [--bucket-mib 16] [--network-gb 40]

The model:
- An all-reduce of S bytes over n GPUs of a machine takes start(n) + 2 (n - 1) / n S / B. start(2) and B fit the two
  times measured on two H200 (MEASURED). B is taken to stay for more GPUs, as each has links of its own, and start to
  grow by HOP for each GPU more.
- Over m machines the sums within each machine then go round a ring of machines: NETWORK_START (m - 1) +
  2 (m - 1) / m S / W, with W bytes a second of a machine's network. Both parts are added up, not overlapped.
- The gradients of a network come evenly over backward, two thirds of the step. Buckets (train/loop/gradient_sum.h) are
  summed one after the other as soon as they are finished; the last one, and what is still waiting then, is not hidden.
  (The last layers of a ResNet have most of the weights, so this is rather too slow for them.)
- While a sum runs, its kernel takes SHARE of the GPU from backward.
- Every rank's step takes as long as one GPU's with the same batch; none waits for data.
"""
import argparse

MEASURED = ((25.6e6 * 4, 372e-6), (4e6 * 2, 45e-6))  # bytes, seconds: all-reduces on two H200 linked by NVLink
HOP = 3e-6  # seconds for each GPU more: two more steps of a ring through NVLink
NETWORK_START = 30e-6  # seconds for each machine more
SHARE = 16 / 132  # of the multiprocessors: 16 channels of NCCL
BACKWARD = 2 / 3  # of a step

# Name, images or sequences of a rank's batch, milliseconds of a step of one H200 (at a5364e3, just before those of four
# in bench/results/2026-11-26-h200.jsonl), million parameters. Gradients are bf16.
NETWORKS = (
    ("resnet50", 256, 28.78, 25.6),
    ("resnet18", 256, 8.74, 11.7),
    ("resnet50", 32, 5.27, 25.6),
    ("resnet18", 32, 1.99, 11.7),
    ("chollet128", 32, 0.299, 3.45),
    ("lstm", 64, 1.773, 3.68),
)
PLACES = ((2, 1), (4, 1), (8, 1), (8, 2), (8, 4))  # GPUs of a machine, machines


def all_reduce(size, gpus, machines, network):
    """Seconds of an all-reduce of `size` bytes."""
    (large, slow), (small, fast) = MEASURED
    bandwidth = (large - small) / (slow - fast)
    start = fast - small / bandwidth
    seconds = start + HOP * (gpus - 2) + 2 * (gpus - 1) / gpus * size / bandwidth
    if machines > 1:
        seconds += NETWORK_START * (machines - 1) + 2 * (machines - 1) / machines * size / network
    return seconds


def step(seconds, size, bucket, sum_of):
    """Seconds of a step of several ranks, and of them those of sums that backward did not hide."""
    buckets, rest = [], size
    while rest > 0:
        buckets.append(min(rest, bucket, max(rest / 2, 2**20)))
        rest -= buckets[-1]
    begin, done, free, busy = seconds * (1 - BACKWARD), 0, 0, 0
    for i, part in enumerate(buckets):
        done += part
        finished = seconds if i + 1 == len(buckets) else begin + seconds * BACKWARD * done / size
        free = max(free, finished) + sum_of(part)
        busy += sum_of(part) if i + 1 < len(buckets) else 0
    exposed = max(0, free - seconds)
    return seconds + exposed + SHARE * min(busy, seconds * BACKWARD), exposed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bucket-mib", type=float, default=16)
    parser.add_argument("--network-gb", type=float, default=40, help="GB/s of a machine's network")
    arguments = parser.parse_args()
    columns = [f"{gpus * machines} GPUs" + (f" of {machines} machines" if machines > 1 else "") for gpus, machines in PLACES]
    print(f"| network | batch of a GPU | gradients, MiB | {' | '.join(columns)} |")
    print("|---" * (3 + len(columns)) + "|")
    for name, batch, milliseconds, parameters in NETWORKS:
        size, seconds = parameters * 1e6 * 2, milliseconds / 1e3
        cells = []
        for gpus, machines in PLACES:
            whole, exposed = step(seconds, size, arguments.bucket_mib * 2**20,
                                  lambda part, g=gpus, m=machines: all_reduce(part, g, m, arguments.network_gb * 1e9))
            cells.append(f"{gpus * machines * seconds / whole:.2f} ({exposed / whole:.0%})".replace("%", " %"))
        print(f"| {name} | {batch} | {size / 2**20:.0f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
