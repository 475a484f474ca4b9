"""Kills and signals at random moments leave a checkpoint.

    kills_test.py [-v]                   with $WHISKER naming the program; WHISKER_LONG=1 for full counts
"""

import json
import os
import random
import shutil
import signal
import time
import unittest

from harness import LONG, ProgramTest


class Kills(ProgramTest):
    """Whatever the moment of a kill or a signal, what is on disk resumes to the same bits."""

    settings = ["train.epochs=6", "checkpoint.every=1", "ema.decay=0.9", "augment.horizontal_flip=true"]

    def model_of(self, run):
        state = json.loads((run / "last/state.json").read_text())
        return (state["step"], (run / "last" / state["model"]["name"]).read_bytes(),
                (run / "last" / state["optimizer"]["name"]).read_bytes())

    def interrupt(self, name, number, moment):
        """Starts a run and sends it `number` after `moment` seconds; returns its exit code."""
        process = self.start("train", "c.yaml", *self.data, f"name={name}", *self.settings)
        time.sleep(moment)
        process.send_signal(number)
        process.communicate(timeout=60)
        return process.returncode

    def test_kills_and_signals_at_random_moments(self):
        begun = time.monotonic()
        expected = self.model_of(self.train("whole", *self.settings))
        seconds = time.monotonic() - begun
        generator = random.Random(20)
        # SIGKILL 20 or 200 times, SIGTERM 10 or 100 times.
        for number, count in ((signal.SIGKILL, 200 if LONG else 20), (signal.SIGTERM, 100 if LONG else 10)):
            hit = resumed = 0
            for i in range(count):
                name = f"sent{int(number)}_{i}"
                code = self.interrupt(name, number, generator.uniform(0.02, 1) * seconds)
                run = self.folder / "runs" / name
                if number == signal.SIGTERM:
                    self.assertIn(code, (0, 75, -signal.SIGTERM))
                hit += code != 0
                if code == 0:
                    seconds /= 1.2  # so that most runs are hit on their way, however busy the machine is by now
                if (run / "last/state.json").exists():
                    self.whisker("train", "--resume", f"runs/{name}")
                    self.assertEqual(self.model_of(run), expected, f"{name}: other bits")
                    resumed += 1
                else:
                    # Nothing was saved yet: a resume says so, and no half file passes for one.
                    self.whisker("train", "--resume", f"runs/{name}", code=4)
                    seconds *= 1.2
                shutil.rmtree(run, ignore_errors=True)
            print(f"{signal.Signals(number).name}: {count} sent, {hit} in time, {resumed} resumed to the same bits")
            self.assertGreater(hit, count // 4)
            self.assertGreater(resumed, count // 4)

    def test_control_a_writer_in_place_is_torn(self):
        # The same kill on a writer that overwrites its file: readers must find it torn.
        torn = 0
        content = os.urandom(1 << 16)
        target = self.folder / "in_place"
        for i in range(20):
            target.write_bytes(content)
            child = os.fork()
            if child == 0:
                while True:
                    with open(target, "wb", buffering=0) as file:
                        for at in range(0, len(content), 256):
                            file.write(content[at:at + 256])
            time.sleep(0.005 + 0.001 * i)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            torn += target.read_bytes() != content
        print(f"written in place and killed: {torn} of 20 torn")
        self.assertGreater(torn, 0)


if __name__ == "__main__":
    unittest.main()
