"""CUDA_VISIBLE_DEVICES says which GPUs the program has, and in which order.

    visible_gpus_test.py VisibleGpus [-v]     with $WHISKER naming the program
"""

import json
import os
import unittest

from harness import ProgramTest


class VisibleGpus(ProgramTest):
    def setUp(self):
        said = self.devices(os.environ)
        self.gpus = self.names(said)
        if not self.gpus:
            self.skipTest(f"skipped: no GPU ({said['gpu_why_not']})")
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.numbers = given.split(",") if given else [str(i) for i in range(len(self.gpus))]

    def devices(self, environment):
        return json.loads(self.whisker("devices", "--json", env=environment).stdout)

    def names(self, said):
        """Of the GPUs, in the program's order, and where in the machine they are."""
        gpus = [device for device in said["devices"] if device["device"].startswith("cuda:")]
        self.assertEqual([gpu["device"] for gpu in gpus], [f"cuda:{i}" for i in range(len(gpus))])
        return [[gpu["properties"].get(key, gpu.get("error")) for key in ("name", "PCI bus")] for gpu in gpus]

    def seeing(self, *numbers):
        return dict(os.environ, CUDA_VISIBLE_DEVICES=",".join(numbers))

    def refused(self, says, *overrides, environment):
        error = self.whisker("train", "c.yaml", *self.data, "name=refused", *overrides, code=5, env=environment).stderr
        self.assertIn(says, error)
        self.assertFalse((self.folder / "runs/refused").exists())

    def test_one(self):
        one = self.seeing(self.numbers[0])
        self.assertEqual(self.names(self.devices(one)), self.gpus[:1])
        self.refused("device cuda:1: expected cuda:0, the one GPU that is visible.", "device=cuda:1", environment=one)

    def test_none(self):
        none = self.seeing()
        why = "CUDA_VISIBLE_DEVICES='' hides every GPU. Unset it."
        said = self.devices(none)
        self.assertEqual(self.names(said), [])
        self.assertFalse(said["gpu_used"])
        self.assertEqual(said["gpu_why_not"], why)
        self.assertIn(why, self.whisker("devices", env=none).stdout)
        self.refused(f"device cuda:0: {why}", "device=cuda", environment=none)

    def test_two_in_another_order(self):
        if len(self.gpus) < 2:
            self.skipTest("skipped: one GPU")
        first, second = self.numbers[:2]
        self.assertEqual(self.names(self.devices(self.seeing(second))), self.gpus[1:2])
        two = self.seeing(second, first)
        self.assertEqual(self.names(self.devices(two)), self.gpus[1::-1])
        self.refused("device cuda:2: expected one of the 2 GPUs that are visible, cuda:0 to cuda:1.", "device=cuda:2",
                     environment=two)


if __name__ == "__main__":
    unittest.main()
