"""Signals while the program computes: oneDNN's AVX-512 kernels borrow the stack pointer, so no thread that computes
may run a handler (apps/terminal/signals.cpp). Standard library only."""

import json
import os
import random
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, ProgramTest

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Large enough that its steps are spent in sgemm: of 20 such runs 14 aborted while threads that compute ran handlers.
LSTM = """device: cpu
data: {kind: language, train: words.txt, val_split: 0.1, text: {steps: 32}}
model:
  layers:
    - embedding: {input_dim: vocabulary, output_dim: 32}
    - lstm: {units: 256, return_sequences: true}
  head:
    - dense: {units: classes}
train: {epochs: 100000, batch_size: 32, log_every: 1}
"""


class Signals(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.generator = random.Random(7)
        words = (cls.generator.choice(("alpha", "beta", "gamma", "delta")) for _ in range(6000))
        (cls.folder / "words.txt").write_text(" ".join(words))
        (cls.folder / "lstm.yaml").write_text(LSTM)

    def train_lstm(self, name, *overrides, **options):
        """A run that has begun its steps, as a process."""
        process = self.start("train", "lstm.yaml", f"name={name}", *overrides, **options)
        self.wait_for(self.folder / "runs" / name / "metrics.jsonl", '"step"')
        return process

    def blocked(self, process):
        """Of each thread of the process: the signals among CAUGHT that it has blocked."""
        masks = []
        for task in os.listdir(f"/proc/{process.pid}/task"):
            with open(f"/proc/{process.pid}/task/{task}/status") as status:
                mask = next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk"))
            masks.append([number for number in CAUGHT if mask >> (number - 1) & 1])
        return masks

    def test_a_stopped_lstm_is_saved(self):
        for i in range(20):
            process = self.train_lstm(f"stop{i}")
            time.sleep(self.generator.uniform(0, 0.2))
            number, code = ((signal.SIGTERM, 75), (signal.SIGINT, 130))[i % 2]
            process.send_signal(number)
            err = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, code, err)
            state = json.loads((self.folder / f"runs/stop{i}/last/state.json").read_text())
            if i < 4:
                self.whisker("train", "--resume", f"runs/stop{i}", f"train.epochs={state['epoch'] + 1}")
                after = json.loads((self.folder / f"runs/stop{i}/last/state.json").read_text())
                self.assertGreater(after["step"], state["step"])

    def test_one_thread_takes_signals(self):
        process = self.train_lstm("threads", env=dict(os.environ, OMP_NUM_THREADS="2"))
        masks = self.blocked(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertGreaterEqual(len(masks), 3)  # the main thread, OpenMP's second, the one that waits
        self.assertEqual(masks.count([]), 1, masks)
        self.assertEqual(masks.count(list(CAUGHT)), len(masks) - 1, masks)

    def test_without_a_stop_to_make_the_signal_ends_it(self):
        for number in CAUGHT:
            process = self.start("bench", "lstm.yaml", "--steps", "1000000")
            time.sleep(0.5)
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -number)

    def test_what_was_ignored_stays_ignored(self):
        process = subprocess.Popen(["nohup", PROGRAM, "train", "lstm.yaml", "name=nohup"], cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        metrics = self.folder / "runs/nohup/metrics.jsonl"
        self.wait_for(metrics, '"step"')
        process.send_signal(signal.SIGHUP)
        self.wait_for(metrics, '"step"', metrics.read_text().count('"step"') + 5)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)


if __name__ == "__main__":
    unittest.main()
