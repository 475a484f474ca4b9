"""A GPU that is there and cannot be used takes nothing from the CPU, and everybody says what is wrong with it.

    broken_gpu_test.py BrokenGpu [-v]     with $WHISKER naming the program, $WHISKER_FAKE_CUDA the folder of a driver
                                          that fails or offers GPUs, $WHISKER_FAKE_VERSIONS a library of any version
"""

import json
import os
import re
import shutil
import time
import unittest

from harness import ProgramTest


class BrokenGpu(ProgramTest):
    hang = 10  # seconds; on a quiet machine looking at devices takes less than 1

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.empty = cls.folder / "empty"
        cls.empty.mkdir()
        (cls.empty / "libwhisker_cuda.so").write_text("no library")
        cls.others = cls.folder / "others"
        cls.others.mkdir()
        for name in ("libnccl.so.2", "libcublasLt.so.12", "libcublasLt.so.13", "libcublasLt.so.14"):
            shutil.copy(os.environ["WHISKER_FAKE_VERSIONS"], cls.others / name)

    def setUp(self):
        if "this build has no CUDA backend" in self.whisker("devices").stdout:
            self.skipTest("built without CUDA")

    def machine(self, *folders, gpus=1, **variables):
        """An environment with a driver that offers so many GPUs, none of which works."""
        path = ":".join(str(folder) for folder in (os.environ["WHISKER_FAKE_CUDA"], *folders))
        return dict(os.environ, LD_LIBRARY_PATH=path, WHISKER_FAKE_CUDA_GPUS=str(gpus), **variables)

    def devices(self, environment, *arguments, code=0):
        """What `whisker devices --json` says, by device, and as a whole."""
        begun = time.monotonic()
        done = self.whisker("devices", "--json", *arguments, env=environment, code=code)
        if not arguments:
            self.assertLess(time.monotonic() - begun, self.hang)
        said = json.loads(done.stdout)
        return {device["device"]: device for device in said["devices"]}, said

    def test_a_missing_library(self):
        machine = self.machine(self.empty, gpus=2)
        self.assert_cpu_serves(machine, "libwhisker_cuda.so cannot be opened: ", "cuDNN 9.14 or newer. Install them",
                               gpus=2)

    def test_a_context_that_does_not_start(self):
        self.assert_cpu_serves(self.machine(), "choosing the GPU: ", "See nvidia-smi, or use device=cpu.")
        error = self.whisker("train", "c.yaml", *self.data, "device=auto", "precision=f16", env=self.machine(), code=2)
        self.assertRegex(error.stderr, "precision: cpu .*device: auto is the CPU, as the GPU cannot be used: choosing ")

    def test_cudnn_too_old(self):
        fake = os.environ["WHISKER_FAKE_VERSIONS"]
        machine = self.machine(LD_PRELOAD=fake, WHISKER_FAKE_CUDNN="91399")
        self.assert_cpu_serves(machine, "cuDNN 9.13.99 is too old: 9.14 or newer is needed. It was loaded from " + fake,
                               "install a newer one")
        listed, _ = self.devices(machine)
        self.assertEqual(listed["cuda:0"]["properties"]["cuDNN"],
                         f"9.13.99 ({fake}), too old: 9.14 or newer is needed")
        enough, _ = self.devices(dict(machine, WHISKER_FAKE_CUDNN="91400"))
        self.assertIn("choosing the GPU: ", enough["cuda:0"]["error"], "the next thing to fail")
        self.assertEqual(enough["cuda:0"]["properties"]["cuDNN"], f"9.14.0 ({fake})")

    def test_a_cudnn_that_lacks_a_part(self):
        whole = self.devices(self.machine())[0]["cuda:0"]["properties"]["cuDNN"]
        alone = self.folder / "alone"
        alone.mkdir()
        shutil.copy(re.search(r"\((.*)\)", whole)[1], alone / "libcudnn.so.9")
        (alone / "libcudnn_graph.so.9").write_text("no library")
        self.assert_cpu_serves(self.machine(alone), "cuDNN: libcudnn_graph.so.9 cannot be opened: ",
                               f"It belongs beside {alone}/libcudnn.so.9: install all of cuDNN")

    def test_an_old_driver(self):
        machine = self.machine(WHISKER_FAKE_CUDA_VERSION="11080")
        says = "the NVIDIA driver is too old: it supports CUDA 11.8, this build needs CUDA "
        listed, whole = self.devices(machine, "--check")
        self.assertEqual(list(listed), ["reference", "cpu"])
        for part in (says, "Update the driver.", os.environ["WHISKER_FAKE_CUDA"] + "/libcuda.so.1"):
            self.assertIn(part, whole["gpu_why_not"])
        self.assert_training(machine, says)

    def test_versions_are_shown_with_files_and_what_is_wrong(self):
        machine = self.machine(self.others, WHISKER_FAKE_NCCL="22703", WHISKER_FAKE_CUBLASLT="110900")
        shown = self.devices(machine)[0]["cuda:0"]["properties"]
        self.assertEqual(shown["driver"], f"for CUDA up to 99.0 ({os.environ['WHISKER_FAKE_CUDA']}/libcuda.so.1)")
        self.assertEqual(shown["NCCL"], f"2.27.3 ({self.others}/libnccl.so.2)")
        self.assertRegex(shown["cuBLASLt"], f"^cuBLASLt 11.9.0 does not fit: that of CUDA [0-9]+ is needed. It was "
                         f"loaded from {self.others}/libcublasLt.so.[0-9]+: install the other")
        self.assertRegex(shown["cuDNN"], r"^\d+\.\d+\.\d+ \(/.*/libcudnn\.so\.9.*\)$")
        self.assertRegex(shown["CUDA"], r"^\d+\.\d+ \(/.*/libwhisker_cuda\.so\)$")

    def assert_cpu_serves(self, machine, *parts, gpus=1):
        """Every way to ask for a device: the CPU works, and what is wrong with the GPUs is said."""
        listed, whole = self.devices(machine)
        self.assertEqual(list(listed), ["reference", "cpu"] + [f"cuda:{i}" for i in range(gpus)])
        self.assertIn("memory", listed["cpu"])
        self.assertFalse(whole["gpu_used"])
        checked, _ = self.devices(machine, "--check", code=5)
        self.assertTrue(all(check["passed"] for check in checked["cpu"]["checks"]))
        self.assertTrue(checked["cpu"]["timings"])
        text = self.whisker("devices", "--check", env=machine, code=5)
        self.assertRegex(text.stderr, "^whisker: error: devices: cuda:0: ")
        self.assertRegex(text.stdout, "(?m)^  the GPU is not used: ")
        for part in parts:
            for i in range(gpus):
                self.assertIn(part, listed[f"cuda:{i}"]["error"])
                self.assertRegex(text.stdout, f"(?m)^cuda:{i}: .*{re.escape(part)}")
            self.assertIn(part, whole["gpu_why_not"])
            self.assertIn(part, text.stderr)
        self.assert_training(machine, *parts)

    def assert_training(self, machine, *parts):
        run = self.folder / "runs/auto"
        shutil.rmtree(run, ignore_errors=True)
        trained = self.train("auto", "device=auto", env=machine)
        weights = trained / "best.safetensors"
        evaluate = ("evaluate", weights, "val", "--device")
        notes = [(trained / "log.txt").read_text(), self.whisker(*evaluate, "auto", env=machine).stderr]
        for said in notes:
            line = [line for line in said.splitlines() if "device: auto is the CPU, as the GPU cannot be used" in line]
            self.assertEqual(len(line), 1, said)
            for part in parts:
                self.assertIn(part, line[0])
        self.assertEqual(self.whisker(*evaluate, "auto", "-q", env=machine).stderr, "")
        self.assertEqual(self.whisker(*evaluate, "cpu", env=machine).stderr, "")
        for refused in (("train", "c.yaml", *self.data, "name=cuda", "device=cuda"), (*evaluate, "cuda")):
            error = self.whisker(*refused, env=machine, code=5).stderr
            for part in ("device cuda:0: ", *parts):
                self.assertIn(part, error)
        self.assertFalse((self.folder / "runs/cuda").exists())


if __name__ == "__main__":
    unittest.main()
