"""Ranks over NCCL: they add up right, train what one trains, and end together. One on each GPU where there are several;
else two on one GPU, by one or both of these ways, each a test of its own:
- NCCL_HOSTID gives each rank a host of its own, so that they speak over the loopback interface (any NCCL);
- NCCL_MULTI_RANK_GPU_ENABLE=1 lets them share the GPU on one host (newer than NCCL 2.28).
Standard library only."""

import contextlib
import ctypes
import json
import mmap
import os
import random
import signal
import socket
import subprocess
import time
import unittest

from harness import PROGRAM, ProgramTest, write_classes

CONFIG = """device: cuda
data: {image_size: 16, workers: 1}
model:
  layers:
    - conv2d: {filters: 16, kernel: 3, padding: same, activation: relu}
    - conv2d: {filters: 32, kernel: 3, padding: same, activation: relu}
    - max_pool2d: 2
    - conv2d: {filters: 64, kernel: 3, padding: same, activation: relu}
    - global_avg_pool2d
  head:
    - dense: {units: classes}
optimizer: {kind: sgd, lr: 0.1}
train: {epochs: 5, batch_size: 8, log_every: 1}
precision: f32
"""

NORMED = """device: cuda
data: {image_size: 16, workers: 1}
model:
  layers:
    - conv2d: {filters: 16, kernel: 3, padding: same}
    - batch_norm
    - activation: relu
    - max_pool2d: 2
    - residual: {body: [{conv2d: {filters: 16, kernel: 3, padding: same}}, batch_norm]}
    - conv2d: {filters: 32, kernel: 3, padding: same}
    - batch_norm
    - activation: relu
    - global_avg_pool2d
  head:
    - dense: {units: classes}
optimizer: {kind: sgd, lr: 0.05}
train: {epochs: 5, batch_size: 8, log_every: 1, drop_last: true, sync_batch_norm: true}
precision: f32
"""


def gpus():
    """Number of GPUs that the program can use, or why there are none."""
    done = subprocess.run([PROGRAM, "devices", "--json"], capture_output=True, text=True, timeout=120)
    report = json.loads(done.stdout)
    if not report["gpu_used"]:
        return 0, report["gpu_why_not"]
    return sum(one["device"].startswith("cuda") for one in report["devices"]), ""


def nccl_version():
    """2.29.3 as 22903; 0 without NCCL."""
    try:
        library = ctypes.CDLL("libnccl.so.2")
    except OSError:
        return 0
    version = ctypes.c_int()
    library.ncclGetVersion(ctypes.byref(version))
    return version.value


def knows(variable):
    """Whether the library that was opened reads this variable."""
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libnccl.so" in line)
    with open(path, "rb") as library, mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(variable) >= 0


COUNT, WHY_NONE = gpus()
VERSION = nccl_version()
ON_LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}


def free_port():
    """Below those that connections get by themselves, MPI's among them."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


class Nccl(ProgramTest):
    """The way to several ranks is chosen by `way`: "gpus", "hosts" or "shared"."""

    @classmethod
    def setUpClass(cls):
        if COUNT == 0:
            raise unittest.SkipTest(f"no GPU: {WHY_NONE}")
        if VERSION == 0:
            raise unittest.SkipTest("libnccl.so.2 cannot be opened")
        super().setUpClass()
        (cls.folder / "plain.yaml").write_text(CONFIG)
        (cls.folder / "normed.yaml").write_text(NORMED)
        write_classes(cls.folder / "train", 1, 900)  # 42: the last batch of an epoch has two images
        cls.way = "gpus" if COUNT > 1 else "hosts"
        cls.ranks = max(COUNT, 2)
        print(f"NCCL {VERSION}, {COUNT} GPU(s), {cls.ranks} ranks by: {cls.way}", flush=True)

    def start(self, command, way=None):
        port, processes = free_port(), []
        ranks = 2 if way == "shared" else self.ranks
        for rank in range(ranks):
            variables = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK="0",
                             MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WHISKER_SECRET="test",
                             NCCL_DEBUG=os.environ.get("NCCL_DEBUG", "WARN"))
            way = way or self.way
            if way == "gpus":
                variables["LOCAL_RANK"] = str(rank)
            elif way == "hosts":
                variables.update(ON_LOOPBACK, NCCL_HOSTID=f"host{rank}")
            else:
                variables["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
            processes.append(subprocess.Popen(command, cwd=self.folder, env=variables, text=True,
                                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        self.addCleanup(lambda: [one.kill() for one in processes if one.poll() is None])
        return processes

    def run_ranks(self, command, way=None, code=0):
        processes = self.start(command, way)
        said = [one.communicate(timeout=180)[0] for one in processes]
        for one, text in zip(processes, said):
            self.assertEqual(one.returncode, code, "\n--- next rank ---\n".join(said))
        return said

    def train(self, name, *overrides, config="plain.yaml", ranks=None):
        """On all ranks; ranks=1: on one."""
        command = [PROGRAM, "train", config, *self.data, f"name={name}", *overrides]
        begin = time.monotonic()
        if ranks == 1:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=180)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        else:
            self.run_ranks(command)
        lines = [json.loads(line) for line in (self.folder / "runs" / name / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if line["kind"] == "step"]
        epochs = [line for line in lines if line["kind"] == "epoch"]
        print(f"  {name}: {len(steps)} steps, last loss {steps[-1]['loss']:.6f}, val {epochs[-1]['val_loss']:.6f}, "
              f"{time.monotonic() - begin:.1f} s", flush=True)
        return steps, epochs

    def assert_same(self, one, other, tolerance):
        for mine, theirs in zip(one, other):
            self.assertEqual([line["step"] for line in mine], [line["step"] for line in theirs])
            worst = 0
            for a, b in zip(mine, theirs):
                for key in ("loss", "train_loss", "val_loss"):
                    if key in a:
                        worst = max(worst, abs(a[key] - b[key]) / max(1, abs(a[key])))
            print(f"  largest difference {worst:.2e}, allowed {tolerance:.0e}", flush=True)
            self.assertLessEqual(worst, tolerance)

    def check_devices(self, way):
        said = self.run_ranks([PROGRAM, "devices", "--check"], way)
        print(said[0], flush=True)
        self.assertIn(f"{len(said)} ranks, NCCL ", said[0])
        self.assertIn("same on all ranks", said[0])
        self.assertNotIn("WRONG", said[0])
        self.assertNotIn("DIFFERENT", said[0])

    def test_1_sums_are_right_and_the_same(self):
        self.check_devices(self.way)

    def test_2_two_ranks_share_a_gpu(self):
        if not knows(b"NCCL_MULTI_RANK_GPU_ENABLE"):
            self.skipTest(f"NCCL {VERSION} has no NCCL_MULTI_RANK_GPU_ENABLE")
        self.check_devices("shared")

    def test_3_captured_steps_train_what_one_rank_trains(self):
        exact = "deterministic=true"  # without tf32
        one = self.train("one", exact, ranks=1)
        self.assert_same(one, self.train("all", exact), 1e-4)
        self.assert_same(one, self.train("eager", exact, "runtime.graph=false"), 1e-4)
        self.assert_same(self.train("one_tf32", ranks=1), self.train("all_tf32"), 5e-3)

    def test_4_accumulation_and_precisions(self):
        for name, overrides, tolerance in (("accumulated", ["train.accumulate=2", "deterministic=true"], 1e-4),
                                           ("bf16", ["precision=bf16"], 0.05), ("f16", ["precision=f16"], 0.05),
                                           ("bf16_acc", ["precision=bf16", "train.accumulate=2"], 0.05)):
            with self.subTest(name):
                self.assert_same(self.train(f"one_{name}", *overrides, ranks=1),
                                 self.train(f"all_{name}", *overrides), tolerance)

    def test_5_synchronised_batch_norm(self):
        for precision, tolerance in (("f32", 1e-3), ("bf16", 0.1)):
            overrides = [f"precision={precision}", "deterministic=true"]
            one = self.train(f"norm_one_{precision}", *overrides, config="normed.yaml", ranks=1)
            self.assert_same(one, self.train(f"norm_all_{precision}", *overrides, config="normed.yaml"), tolerance)

    def test_6_weights_are_equal_after_every_step(self):
        steps = os.environ.get("WHISKER_RANK_STEPS")
        if not steps:
            self.skipTest("WHISKER_RANK_STEPS does not name the program rank_steps")
        self.run_ranks([steps, "normed.yaml", "hashes", *self.data, "name=hashes", "precision=bf16"])
        ranks = [[line.split()[:2] for line in (self.folder / f"hashes.{rank}").read_text().splitlines()]
                 for rank in range(self.ranks)]
        self.assertGreater(len(ranks[0]), 20)
        for rank in ranks:
            self.assertEqual(rank, ranks[0])

    def test_7_deterministic_runs_repeat_bit_for_bit(self):
        weights = []
        for name in ("bits1", "bits2"):
            self.train(name, "deterministic=true", "precision=bf16")
            content = next((self.folder / "runs" / name / "last").glob("model-*.safetensors")).read_bytes()
            weights.append(content[8 + int.from_bytes(content[:8], "little"):])
        self.assertEqual(weights[0], weights[1])

    def test_8_a_killed_rank_ends_the_others(self):
        for victim in (self.ranks - 1, 0):
            name = f"killed{victim}"
            processes = self.start([PROGRAM, "train", "plain.yaml", *self.data, f"name={name}", "train.epochs=100000"])
            metrics = self.folder / "runs" / name / "metrics.jsonl"
            deadline = time.monotonic() + 90
            while not (metrics.exists() and '"step"' in metrics.read_text()):
                self.assertLess(time.monotonic(), deadline, "no step was logged")
                self.assertEqual([one.poll() for one in processes], [None] * self.ranks, "one ended by itself")
                time.sleep(0.1)
            time.sleep(1)
            begin = time.monotonic()
            os.kill(processes[victim].pid, signal.SIGKILL)
            others = [one for rank, one in enumerate(processes) if rank != victim]
            said = [one.communicate(timeout=30)[0] for one in others]
            seconds = time.monotonic() - begin
            print(f"  {len(others)} of {self.ranks} ranks ended {seconds:.1f} s after rank {victim} was killed: "
                  f"{said[0][-300:]!r}", flush=True)
            self.assertLess(seconds, 10)
            for one in others:
                self.assertNotEqual(one.returncode, 0)
            self.assertIn(f"rank {victim} on ", "".join(said))  # one of them says it

    def test_9_another_number_of_ranks_goes_on(self):
        self.train("resumed", "train.epochs=2")
        done = subprocess.run([PROGRAM, "train", "--resume", "runs/resumed", "train.epochs=3"], cwd=self.folder,
                              capture_output=True, text=True, timeout=180)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
