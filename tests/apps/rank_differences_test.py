"""Ranks that are not one program: whatever differs is named, and all end alike. Ranks that hang end all, those that
take long do not. Standard library only."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, ProgramTest, write_classes
from ranks_test import MPI, MPIRUN, PLAIN, SENTENCES, SERIES, free_port


class RankDifferences(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "plain.yaml").write_text(PLAIN)
        (cls.folder / "sentences.yaml").write_text(SENTENCES)
        (cls.folder / "series.yaml").write_text(SERIES)
        words = ("good", "bad", "fine", "poor")
        (cls.folder / "sentences.csv").write_text("".join(["label,text\n", *(f"{i % 2},{words[i % 4]} {i}\n"
                                                                             for i in range(40))]))
        (cls.folder / "series.csv").write_text("".join(f"{i % 7},{i}\n" for i in range(150)))
        for name in ("moved", "fewer", "swapped", "other_val"):
            shutil.copytree(cls.folder / ("val" if name == "other_val" else "train"), cls.folder / name)
        (cls.folder / "fewer/c1/019.png").unlink()
        for old, new in (("c0", "c2"), ("c1", "c0"), ("c2", "c1")):
            (cls.folder / "swapped" / old).rename(cls.folder / "swapped" / new)
        write_classes(cls.folder / "other_val", 6, 500)
        cls.train_one("one")
        cls.train_one("two", "seed=7")

    @classmethod
    def train_one(cls, name, *overrides, config="plain.yaml"):
        data = cls.data if config == "plain.yaml" else []
        subprocess.run([PROGRAM, "train", config, *data, f"name={name}", "train.epochs=1", "-q", *overrides],
                       cwd=cls.folder, check=True, stdout=subprocess.DEVNULL)

    def ranks(self, *commands, lines="", variables=()):
        """(exit code, stdout, stderr) of each rank, started as by torchrun."""
        port = free_port()
        started = []
        for rank, command in enumerate(commands):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(len(commands)), LOCAL_RANK=str(rank),
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1", **dict(variables))
            started.append(subprocess.Popen([PROGRAM, *command], cwd=self.folder, text=True, env=environment,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        said = [one.communicate(lines if rank == 0 else "", timeout=120) for rank, one in enumerate(started)]
        return [(one.returncode, *texts) for one, texts in zip(started, said)]

    def assert_refused(self, code, expected, mine, other, count=2):
        """The last of `count` ranks runs `other`: all end with `code`, and one tells why."""
        results = self.ranks(*[mine] * (count - 1), other)
        self.assertEqual([result[0] for result in results], [code] * count, results)
        self.assertEqual("".join(result[1] for result in results), "")
        said = "".join(result[2] for result in results)
        self.assertIn("whisker: error: rank ", said)
        self.assertIn(f"rank {count - 1} on ", said)
        self.assertIn(expected, said)
        self.assertIn("All ranks compute one run", said)

    def test_training_that_differs_is_refused(self):
        train = ["train", "plain.yaml", *self.data]
        init = [*train, "--init", "runs/one/best.safetensors"]
        before = set(os.listdir(self.folder / "runs"))
        for code, expected, mine, other in (
                (2, "another configuration than rank 0: optimizer.lr is '0.02', on rank 0 '0.01'", train,
                 [*train, "optimizer.lr=0.02"]),
                (2, "seed is '3', on rank 0 '0'", [*train, "seed=0"], [*train, "seed=3"]),
                (2, "train.epochs is '1', on rank 0 '3'", train, [*train, "train.epochs=1"]),
                (2, "model.layers[0].conv2d.filters is", train, [*train, "model.layers[0].conv2d.filters=9"]),
                (2, "--init is 'not given', on rank 0 'given'", init, train),
                (2, "another command than rank 0: command is 'evaluate', on rank 0 'train'", train,
                 ["evaluate", "runs/one/best.safetensors", "val"]),
                (2, "--resume is 'given', on rank 0 'not given'", train, ["train", "--resume", "runs/one"]),
                (3, "c1/019.png in data.train is missing, on rank 0 it is 'c1, ", train,
                 [*train, "data.train=fewer", "data.val=val"]),
                (3, " in data.train is 'c0, ", train, [*train, "data.train=swapped", "data.val=val"]),
                (3, "c0/505.png in data.val is 'c0, ", train, [*train, "data.val=other_val"]),
                (4, "another weights file to start from than rank 0: init.from is '", init,
                 [*train, "--init", "runs/two/best.safetensors"]),
                (4, "another run to resume than rank 0: last/state.json is '", ["train", "--resume", "runs/one"],
                 ["train", "--resume", "runs/two"])):
            for count in (2, 3):
                with self.subTest((count, other)):
                    self.assert_refused(code, expected, mine, other, count)
        self.assertEqual(set(os.listdir(self.folder / "runs")), before)

    def test_without_a_configuration_files_are_compared_too(self):
        mine = ["train", "--data", "train", "device=cpu", "name=unnamed"]
        self.assert_refused(3, "c1/", mine, [*mine[:2], "fewer", *mine[3:]])

    def test_sequences_are_compared_by_content(self):
        for config, file, old, new in (("sentences.yaml", "sentences.csv", "fine 22", "fine 21"),
                                       ("series.yaml", "series.csv", "6,6", "5,6")):
            text = (self.folder / file).read_text()
            (self.folder / "elsewhere").mkdir(exist_ok=True)
            (self.folder / "elsewhere" / file).write_text(text.replace(old, new, 1))
            train = ["train", config]
            with self.subTest(config):
                self.assert_refused(3, "set of training and validation data than rank 0: data.train is '", train,
                                    [*train, f"data.train=elsewhere/{file}"])

    def test_evaluations_that_differ_are_refused(self):
        weights, other = "runs/one/best.safetensors", "runs/two/best.safetensors"
        evaluate = ["evaluate", weights, "train", "--device", "cpu", "-q"]
        for code, expected, second in (
                (2, "--batch-size is '8', on rank 0 '32'", [*evaluate, "--batch-size", "8"]),
                (2, "--json is 'true', on rank 0 'not given'", [*evaluate, "--json"]),
                (2, "--precision is 'bf16', on rank 0 'that of the validation in WEIGHTS'",
                 [*evaluate, "--precision", "bf16"]),
                (2, "--tta is 'true', on rank 0 'not given'", [*evaluate, "--tta"]),
                (2, "--predictions is 'given', on rank 0 'not given'", [*evaluate, "--predictions", "p.csv"]),
                (2, "command is 'classify', on rank 0 'evaluate'", ["classify", *evaluate[1:]]),
                (3, "c1/019.png is missing, on rank 0 it is 'c1, ", [*evaluate[:2], "fewer", *evaluate[3:]]),
                (3, " is 'c0, ", [*evaluate[:2], "swapped", *evaluate[3:]]),
                (4, "another network than rank 0: WEIGHTS is '", ["evaluate", other, *evaluate[2:]]),
                (2, "--input is 'image_size=18', on rank 0 'not given'", [*evaluate, "--input", "image_size=18"])):
            for count in (2, 3):
                with self.subTest((count, second)):
                    self.assert_refused(code, expected, evaluate, second, count)
        self.train_one("reviews", config="sentences.yaml")
        rows = ["evaluate", "runs/reviews/best.safetensors", "sentences.csv", "--device", "cpu"]
        lines = (self.folder / "sentences.csv").read_text().split("\n")
        (self.folder / "fewer.csv").write_text("\n".join(lines[:-2]))
        self.assert_refused(3, "list of inputs than rank 0: DATA is '", rows, [*rows[:2], "fewer.csv", *rows[3:]])

    def test_classifications_that_differ_are_refused(self):
        weights = "runs/one/best.safetensors"
        classify = ["classify", weights, "train", "--device", "cpu"]
        for code, expected, second in (
                (2, "--top is '2', on rank 0 'not given'", [*classify, "--top", "2"]),
                (2, "INPUTS is 'standard input', on rank 0 'given'", [*classify[:2], "-", *classify[3:]]),
                (3, "c1/019.png is missing, on rank 0 it is '", [*classify[:2], "fewer", *classify[3:]]),
                (4, "WEIGHTS is '", ["classify", "runs/two/best.safetensors", *classify[2:]])):
            with self.subTest(second):
                self.assert_refused(code, expected, classify, second)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_ranks_may_differ_in_where_and_how_they_run(self):
        train = ["train", "plain.yaml"]
        process = subprocess.run(
            [*MPIRUN, "1", PROGRAM, *train, *self.data, "name=whole", ":", "-n", "1", PROGRAM, *train,
             "data.train=moved", "data.val=val", "data.workers=2", "data.prefetch=2", "data.cache_limit_mib=1",
             "runtime.threads=1", "name=elsewhere"],
            cwd=self.folder, text=True, env=dict(os.environ, **MPI), capture_output=True, timeout=120)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(process.stdout, "runs/whole\n")
        shutil.copytree(self.folder / "runs/whole", self.folder / "mounted")
        process = subprocess.run([*MPIRUN, "1", PROGRAM, "train", "--resume", "runs/whole", "train.epochs=4", ":", "-n",
                                  "1", PROGRAM, "train", "--resume", "mounted", "train.epochs=4"], cwd=self.folder,
                                 text=True, env=dict(os.environ, **MPI), capture_output=True, timeout=120)
        self.assertEqual(process.returncode, 0, process.stderr)
        shutil.copy(self.folder / "runs/one/best.safetensors", self.folder / "copied.safetensors")
        for command in ("evaluate", "classify"):
            first = [command, "runs/one/best.safetensors", "train", "--device", "cpu", "--json"]
            second = [command, "copied.safetensors", "moved", "--json"]
            results = self.ranks(first, second)
            self.assertEqual([result[0] for result in results], [0, 0], results)
            self.assertEqual(json.loads(results[0][1]).keys() & {"accuracy", "images"},
                             {"accuracy", "images"} if command == "evaluate" else {"images"})

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_hanging_ranks_end_all_and_slow_ones_do_not(self):
        limit = {"WHISKER_SILENCE_S": "4"}
        steps = [os.environ["WHISKER_RANK_STEPS"], "plain.yaml"]
        started = {}
        for name, count, rank in (("HANG_RANK", 2, 1), ("HANG_RANK", 3, 0), ("SLOW_RANK", 2, 1),
                                  ("SHORT_RANK", 2, 1), ("SHORT_RANK", 3, 2)):
            out = f"{name}_{count}"
            started[out] = subprocess.Popen([*MPIRUN, str(count), *steps, out, *self.data, f"name={out}"], text=True,
                                            cwd=self.folder, env=dict(os.environ, **MPI, **limit, **{name: str(rank)}),
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        # A list that comes slowly: rank 0 waits for it, the other one for rank 0.
        port = free_port()
        evaluate = [PROGRAM, "evaluate", "runs/one/best.safetensors", "-", "--device", "cpu", "--json"]
        listed = [subprocess.Popen(evaluate, cwd=self.folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=dict(os.environ, **limit, RANK=rank, WORLD_SIZE="2",
                                                                    MASTER_PORT=str(port))) for rank in "01"]
        time.sleep(7)
        out, err = listed[0].communicate("train\n", timeout=60)
        self.assertEqual(listed[0].returncode, 0, err)
        self.assertEqual(json.loads(out)["images"], 40)
        listed[1].communicate(timeout=60)
        said = {name: process.communicate(timeout=60) for name, process in started.items()}
        self.assertEqual(started["SLOW_RANK_2"].returncode, 0, said["SLOW_RANK_2"])
        for name in ("SHORT_RANK_2", "SHORT_RANK_3"):  # MPI may notice, else the watch does
            self.assertNotEqual(started[name].returncode, 0, said[name])
        for name, rank in (("HANG_RANK_2", 1), ("HANG_RANK_3", 0)):
            self.assertNotEqual(started[name].returncode, 0)
            self.assertIn(f"error: rank {rank} on ", said[name][1])
            self.assertIn("hangs: it has made no progress for 4 s, the limit of WHISKER_SILENCE_S. All ranks end.",
                          said[name][1])

    def test_a_stopped_child_obeys(self):
        launcher = self.start("train", "c.yaml", *self.data, "name=stopped", "train.epochs=100000",
                              "--max-restarts", "2")
        run = self.folder / "runs/stopped"
        self.wait_for(run / "last/state.json", '"epoch"')
        with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children") as children:
            child = int(children.read().split()[0])
        os.kill(child, signal.SIGSTOP)
        begin = time.monotonic()
        launcher.send_signal(signal.SIGTERM)
        out, err = launcher.communicate(timeout=60)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(launcher.returncode, 75, err)
        self.assertIn("continue with: whisker train --resume", err)
        with self.assertRaises(ProcessLookupError):
            os.kill(child, 0)


if __name__ == "__main__":
    unittest.main()
