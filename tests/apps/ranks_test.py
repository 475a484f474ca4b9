"""Several ranks on this machine's CPU, through mpirun: they train what one rank trains, and end together. Standard
library only."""

import contextlib
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

from harness import LONG, PROGRAM, ProgramTest, write_classes

# No batch_norm, whose statistics are each rank's own, and no dropout, whose masks are.
PLAIN = """device: cpu
data: {image_size: 16, workers: 1}
model:
  layers:
    - conv2d: {filters: 8, kernel: 3, activation: relu}
    - max_pool2d: 2
    - conv2d: {filters: 8, kernel: 3, activation: relu}
    - global_avg_pool2d
  head:
    - dense: {units: classes}
optimizer: {kind: adam, lr: 0.01}
train: {epochs: 3, batch_size: 8, log_every: 1}
"""

TEXT = """device: cpu
data: {kind: language, train: words.txt, val_split: 0.2, text: {steps: 8}}
model:
  layers:
    - embedding: {input_dim: vocabulary, output_dim: 16}
    - lstm: {units: 16, return_sequences: true}
  head:
    - dense: {units: classes}
train: {epochs: 2, batch_size: 6, log_every: 1}
"""

# The statistics of all ranks' images make batch_norm that of one rank.
NORMED = """device: cpu
data: {image_size: 16, workers: 1}
model:
  layers:
    - conv2d: {filters: 8, kernel: 3}
    - batch_norm
    - activation: relu
    - max_pool2d: 2
    - residual: {body: [{conv2d: {filters: 8, kernel: 3, padding: same}}, batch_norm]}
    - global_avg_pool2d
    - batch_norm
  head:
    - dense: {units: classes}
optimizer: {kind: sgd, lr: 0.05}
train: {epochs: 3, batch_size: 8, log_every: 1, drop_last: true, sync_batch_norm: true}
"""

# More ranks than cores wait for each other: they yield, not spin.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
       "OMPI_MCA_mpi_yield_when_idle": "1"}
SENTENCES = """device: cpu
data: {kind: text, train: sentences.csv, val_split: 0.2, label_column: label, text: {text_column: text}}
model:
  layers:
    - embedding: {input_dim: vocabulary, output_dim: 8}
    - gru: {units: 8}
  head:
    - dense: {units: classes}
train: {epochs: 3, batch_size: 6, log_every: 1}
"""

SERIES = """device: cpu
data: {kind: series, train: series.csv, val_split: 0.2, series: {columns: [1], window: 8, horizon: 2}}
model:
  layers:
    - lstm: {units: 8}
  head:
    - dense: {units: 2}
train: {epochs: 2, batch_size: 16, log_every: 1}
"""

if os.environ.get("WHISKER_SANITIZE"):
    MPI["ASAN_OPTIONS"] = "detect_leaks=0"  # Open MPI keeps what it allocates
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n"]


def free_port():
    """Below those that connections get by themselves, MPI's among them."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def with_variables(command, count, folder, launcher="torchrun", lines=None):
    """One process per rank, with the variables that a launcher sets. (exit code, stdout, stderr) of each; rank 0
    reads `lines`."""
    port = free_port()
    started = []
    for rank in range(count):
        if launcher == "torchrun":
            variables = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": count,
                         "MASTER_ADDR": "localhost", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none"}
        else:
            variables = {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": count, "SLURM_LOCALID": rank,
                         "SLURM_STEP_ID": 0, "SLURM_JOB_ID": port, "SLURM_STEP_NUM_NODES": 1}
        environment = dict(os.environ, OMP_NUM_THREADS="1", **{name: str(value) for name, value in variables.items()})
        started.append(subprocess.Popen(command, cwd=folder, text=True, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    said = [process.communicate(lines if rank == 0 else "", timeout=120) for rank, process in enumerate(started)]
    return [(process.returncode, *texts) for process, texts in zip(started, said)]


def with_mpi(command, count, folder, variables=(), **options):
    return subprocess.Popen([*MPIRUN, str(count), *command], cwd=folder, text=True,
                            env=dict(os.environ, **MPI, **dict(variables)),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


class Ranks(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "plain.yaml").write_text(PLAIN)
        (cls.folder / "normed.yaml").write_text(NORMED)
        (cls.folder / "text.yaml").write_text(TEXT)
        (cls.folder / "sentences.yaml").write_text(SENTENCES)
        (cls.folder / "series.yaml").write_text(SERIES)
        write_classes(cls.folder / "train", 1, 900)  # 42: the last batch of an epoch has two images
        generator = random.Random(7)
        words = (generator.choice(("alpha", "beta", "gamma", "delta")) for _ in range(300))
        (cls.folder / "words.txt").write_text(" ".join(words))
        moods = (("bad", "poor", "so so"), ("good", "fine", "so so"))
        sentences = [f"{i % 2},{' '.join(generator.choices(moods[i % 2], k=2 + i % 7))}"
                     for i in range(62)]  # 50 train, in batches of 6: one has two sentences
        (cls.folder / "sentences.csv").write_text("\n".join(["label,text", *sentences, ""]))
        values = [f"{i},{math.sin(i / 3):.4f}" for i in range(150)]
        (cls.folder / "series.csv").write_text("\n".join(["step,value", *values, ""]))
        write_classes(cls.folder / "uneven", 12)
        for i in range(5, 12):  # 12 and 5 of them
            (cls.folder / f"uneven/c1/{i:03}.png").unlink()

    def train_ranks(self, count, name, *overrides, config="plain.yaml", code=0):
        """A run of `count` ranks; one is the plain program."""
        data = self.data if config in ("plain.yaml", "normed.yaml") else []
        done = self.run_ranks(count, ["train", config, *data, f"name={name}", *overrides], code)
        return done, self.folder / "runs" / name

    def run_ranks(self, count, arguments, code=0, lines=None):
        if count == 1:
            return self.whisker(*arguments, code=code, env=dict(os.environ, **MPI), input=lines)
        process = with_mpi([PROGRAM, *arguments], count, self.folder, stdin=subprocess.PIPE)
        out, err = process.communicate(lines, timeout=240)
        self.assertEqual(process.returncode, code, f"{arguments}\n{out}\n{err}")
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def run_tcp(self, count, arguments, code=0, lines=None):
        ranks = with_variables([PROGRAM, *arguments], count, self.folder, "torchrun", lines)
        self.assertEqual([code] + [0] * (count - 1), [rank[0] for rank in ranks], (arguments, ranks))
        for _, out, err in ranks[1:]:
            self.assertEqual(out + err, "")
        return subprocess.CompletedProcess(arguments, *ranks[0])

    def lines(self, run, kind):
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["kind"] == kind]

    def assert_same_course(self, one, other, tolerance=1e-6):
        for kind, keys in (("step", ("loss", "accuracy", "gradient_norm", "learning_rate")),
                           ("epoch", ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "val_mae"))):
            mine, theirs = self.lines(one, kind), self.lines(other, kind)
            self.assertEqual([line["step"] for line in mine], [line["step"] for line in theirs])
            for a, b in zip(mine, theirs):
                for key in keys:
                    if key in a or key in b:
                        bound = tolerance * max(1, abs(a[key])) * (10 if key == "gradient_norm" else 1)
                        self.assertAlmostEqual(a[key], b[key], delta=bound, msg=(kind, key, a, b))

    def assert_same_examples(self, one, other):
        (says, mine), (says_too, theirs) = (self.safetensors(run / "validation.safetensors") for run in (one, other))
        self.assertEqual(says, says_too)
        for exact in ("labels", "paths", "path_ends"):
            self.assertEqual(mine[exact], theirs[exact], exact)
        losses = [struct.unpack(f"<{len(tensors['losses']) // 4}f", tensors["losses"]) for tensors in (mine, theirs)]
        for a, b in zip(*losses, strict=True):
            self.assertAlmostEqual(a, b, places=4)

    def test_ranks_train_what_one_trains(self):
        exact = ["deterministic=true"]  # Algorithms that timing chooses may differ by more than the order of sums.
        lively = [*exact, "train.accumulate=2", "data.sampling=balanced", "ema.decay=0.9"]
        for overrides in (exact, lively, [*exact, "train.batch_size=7"]):
            with self.subTest(overrides):
                number = len(overrides)
                one = self.train_ranks(1, f"one{number}", *overrides)[1]
                for count in (2, 4):
                    done, run = self.train_ranks(count, f"ranks{number}_{count}", *overrides)
                    self.assert_same_course(one, run)
                    self.assert_same_examples(one, run)
                    self.assertEqual(done.stdout, f"runs/ranks{number}_{count}\n")
                    self.assertIn(f"{count} ranks, Open MPI", done.stderr)

    def test_class_weights_count_over_the_whole_batch(self):
        settings = ["deterministic=true", "data.train=uneven", "loss.class_weights=balanced",
                    "loss.label_smoothing=0.1"]
        one = self.train_ranks(1, "weighted1", *settings)[1]
        for count in (2, 4):  # 17 images in batches of 8: the last one is one rank's alone
            self.assert_same_course(one, self.train_ranks(count, f"weighted{count}", *settings)[1])
        mixed = self.train_ranks(2, "weighted_mixed", *settings, "augment.mixup=0.2")[1]
        self.assertEqual(len(self.lines(mixed, "epoch")), 3)

    def test_accumulated_batches_count_as_one(self):
        # Batches of 8, 8 and 1: the last one is one rank's alone, and class weights count over all of them.
        for number, more in enumerate(([], ["loss.class_weights=balanced"],
                                       ["train.accumulate=2", "loss.class_weights=balanced"])):
            settings = ["deterministic=true", "data.train=uneven", "train.accumulate=3", "optimizer.kind=sgd",
                        "optimizer.clip_norm=0.1", *more]
            one = self.train_ranks(1, f"accumulated{number}", *settings)[1]
            for count in (2, 4):
                run = self.train_ranks(count, f"accumulated{number}_{count}", *settings)[1]
                self.assert_same_course(one, run)

    def test_a_batch_size_per_gpu_is_that_of_each_rank(self):
        one = self.train_ranks(1, "whole8", "deterministic=true")[1]
        done, run = self.train_ranks(2, "each4", "deterministic=true", "train.batch_size_per_gpu=4")
        self.assertIn("train.batch_size_per_gpu: 4 on 2 ranks is train.batch_size 8", done.stderr)
        self.assert_same_course(one, run)
        self.assertIn("batch_size: 8", (run / "config.yaml").read_text())
        done = self.run_ranks(3, ["train", "--resume", str(run), "train.epochs=4"])
        self.assertIn("goes on with its train.batch_size of 8, divided among 3 ranks now", done.stderr)
        self.assertEqual(self.train_ranks(1, "over", "train.batch_size_per_gpu=4")[0].returncode, 0)
        done, _ = self.train_ranks(1, "both", "train.batch_size=8", "train.batch_size_per_gpu=4", code=2)
        self.assertIn("train.batch_size_per_gpu: expected 0, as train.batch_size is given", done.stderr)

    def test_the_largest_batch_is_found_for_all_ranks(self):
        done, run = self.train_ranks(2, "auto", "train.batch_size=auto", "train.epochs=1", "device=cpu,cpu")
        self.assertIn("train.batch_size: auto is 42", done.stderr)
        self.assertIn("batch_size: 42", (run / "config.yaml").read_text())

    def test_ranks_log_and_trace_what_they_do(self):
        done, run = self.train_ranks(2, "logged", "train.log_ranks=true", "train.profile=2")
        for name in ("log.txt", "log.rank1.txt"):
            text = (run / name).read_text()
            self.assertIn("step 1: ", text)
            self.assertIn("communication", text)
            self.assertIn("epoch 3/3", text)
        for name in ("trace.json", "trace.rank1.json"):
            self.assertGreater(len(json.loads((run / name).read_text())["traceEvents"]), 10)
        self.assertEqual(sum("communication" in line for line in self.lines(run, "step")), 15)
        for line in self.lines(run, "step"):
            if "communication" not in line:  # an epoch's first step: the ranks compare after it
                continue
            self.assertTrue(0 <= line["communication"] <= 1, line)
            self.assertIn(line["slowest_rank"], (0, 1))
        self.assertFalse((self.train_ranks(2, "unlogged")[1] / "log.rank1.txt").exists())

    def test_each_rank_normalises_its_part_and_validation_takes_rank_0s_statistics(self):
        layers = PLAIN.replace("    - max_pool2d: 2\n", "    - batch_norm\n    - max_pool2d: 2\n")
        (self.folder / "norm.yaml").write_text(layers)
        command = [os.environ["WHISKER_RANK_STEPS"], "norm.yaml", "norm", *self.data, "name=norm_steps"]
        process = with_mpi(command, 2, self.folder)
        out, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 0, out + err)
        hashes = [[line.split()[:2] for line in (self.folder / f"norm.{rank}").read_text().splitlines()]
                  for rank in range(2)]
        self.assertEqual(hashes[0], hashes[1])
        self.assertEqual(len(hashes[0]), 18)
        self.run_ranks(2, ["train", "norm.yaml", *self.data, "name=norm"])
        run = self.folder / "runs/norm"
        best = max(self.lines(run, "epoch"), key=lambda line: line["val_accuracy"])
        for count in (1, 2):
            found = json.loads(self.run_ranks(count, ["evaluate", "runs/norm/best.safetensors", "--split", "val",
                                                      "--device", "cpu", "--json"]).stdout)
            self.assertEqual(found["accuracy"], best["val_accuracy"])
            self.assertAlmostEqual(found["loss"], best["val_loss"], delta=1e-6)
        self.run_ranks(2, ["train", "--resume", str(run), "train.epochs=4"])

    def assert_same_result(self, one, other, place="result"):
        """JSON: equal but for the rounding of losses."""
        self.assertEqual(type(one), type(other), place)
        if isinstance(one, dict):
            self.assertEqual(one.keys(), other.keys(), place)
            for key in one:
                self.assert_same_result(one[key], other[key], f"{place}.{key}")
        elif isinstance(one, list):
            self.assertEqual(len(one), len(other), place)
            for i, pair in enumerate(zip(one, other)):
                self.assert_same_result(*pair, f"{place}[{i}]")
        elif isinstance(one, float) and place.rsplit(".", 1)[-1] not in ("accuracy", "f1", "f1_macro", "precision", "recall"):
            self.assertAlmostEqual(one, other, delta=1e-6 * max(1, abs(one)), msg=place)
        else:
            self.assertEqual(one, other, place)

    def test_evaluate_counts_each_example_once(self):
        names = {"images": "plain.yaml", "lm": "text.yaml", "reviews": "sentences.yaml", "waves": "series.yaml"}
        inputs = {"images": ["val"], "lm": ["words.txt"], "reviews": ["sentences.csv"], "waves": ["series.csv"]}
        for name, config in names.items():
            self.train_ranks(1, f"for_{name}", "train.epochs=1", config=config)
            for data in (inputs[name], ["--split", "val"]):
                command = ["evaluate", f"runs/for_{name}/best.safetensors", *data, "--device", "cpu",
                           "--batch-size", "4", "--json", "-q"]
                one = json.loads(self.run_ranks(1, command).stdout)
                for count in (2, 3):
                    with self.subTest((name, data, count)):
                        self.assert_same_result(one, json.loads(self.run_tcp(count, command).stdout))

    def test_a_temperature_is_fitted_to_the_examples_of_all_ranks(self):
        self.train_ranks(1, "for_fit", "train.epochs=20", "optimizer.lr=0.02", config="sentences.yaml")
        lines = (self.folder / "sentences.csv").read_text().splitlines()
        swapped = [line.replace("good,", "bad,") for line in lines[1:] if line.startswith("good,")][:3]
        (self.folder / "doubtful.csv").write_text("\n".join(lines + swapped) + "\n")
        command = ["evaluate", "runs/for_fit/best.safetensors", "doubtful.csv", "--device", "cpu", "--json", "-q",
                   "--calibrate", "-o"]
        one = json.loads(self.run_ranks(1, [*command, "one.safetensors"]).stdout)["calibrate"]
        two = json.loads(self.run_tcp(2, [*command, "two.safetensors"]).stdout)["calibrate"]
        for key, value in one.items():
            self.assertAlmostEqual(value, two[key], places=6, msg=key)
        records = [json.loads(self.metadata(f"{name}.safetensors")["calibration"]) for name in ("one", "two")]
        self.assertEqual(records[0]["contents"], records[1]["contents"])
        self.assertEqual(records[0]["examples"], records[1]["examples"])

    def test_unreadable_images_are_told_once_and_in_order(self):
        self.train_ranks(1, "for_bad", "train.epochs=1")
        shutil.copytree(self.folder / "val", self.folder / "bad")
        for name in ("c0/501.png", "c1/500.png", "c1/503.png"):
            (self.folder / "bad" / name).write_bytes(b"\x89PNG\r\n\x1a\n no image")
        images = sorted(str(path) for path in (self.folder / "bad").rglob("*.png"))
        weights = "runs/for_bad/best.safetensors"
        for command, lines in (
                (["evaluate", weights, "bad", "--json"], None),
                (["evaluate", weights, "-"], "".join(f"{path}\n" for path in images)),
                (["classify", weights, "bad", "--batch-size", "2"], None),
                (["classify", weights, "bad", "--json", "--top", "2"], None),
                (["classify", weights, *images, "--jsonl", "--batch-size", "1"], None),
                (["classify", weights, "-"], "".join(f"{path}\n" for path in images))):
            command += ["--device", "cpu"]
            one = self.run_ranks(1, command, 3, lines)
            errors = [line for line in one.stderr.splitlines() if "whisker: error" in line]
            for count in (2, 3):
                with self.subTest((command, count)):
                    other = self.run_tcp(count, command, 3, lines)
                    if command[0] == "classify":
                        self.assertEqual(one.stdout, other.stdout)
                    else:
                        self.assertEqual(one.stdout.splitlines()[1:], other.stdout.splitlines()[1:])
                    self.assertEqual(errors, [line for line in other.stderr.splitlines() if "whisker: error" in line])

    def test_files_about_each_image_are_those_of_one_rank(self):
        self.train_ranks(1, "for_files", "train.epochs=1")
        shutil.copytree(self.folder / "val", self.folder / "each")
        shutil.copy(self.folder / "val/c0/500.png", self.folder / "each/c1/500.png")  # heat maps of one name
        (self.folder / "each/c1/501.png").write_bytes(b"\x89PNG\r\n\x1a\n no image")
        weights = "runs/for_files/best.safetensors"
        self.train_ranks(1, "texts_for_files", "train.epochs=1", config="sentences.yaml")
        texts = "runs/texts_for_files/best.safetensors"
        commands = (["evaluate", weights, "each", "--predictions", "out/a.csv", "--worst", "4", "--out", "out/b.html"],
                    ["evaluate", weights, "each", "--tta", "--predictions", "out/a.csv", "--worst", "4", "--out",
                     "out/b.html"],
                    ["evaluate", texts, "sentences.csv", "--predictions", "out/a.csv", "--worst", "4", "--out",
                     "out/b.html"],
                    ["classify", weights, "each", "--cam", "out/maps", "--embeddings", "out/c.csv"])
        out = self.folder / "out"
        for command in commands:
            command += ["--device", "cpu", "--batch-size", "2"]
            written = []
            for count in (1, 3):
                out.mkdir()
                code = 0 if texts in command else 3
                self.run_ranks(1, command, code) if count == 1 else self.run_tcp(count, command, code)
                # A page has the minute of its making, and a sum over all of its text.
                written.append({str(path.relative_to(out)): re.sub(rb"measured on [-0-9 :]*|crc32 [0-9a-f]*", b"",
                                                                   path.read_bytes()) for path in out.rglob("*.*")})
                shutil.rmtree(out)
            self.assertEqual(len(written[0]), 2 if command[0] == "evaluate" else 10)
            self.assertEqual(*written)

    def test_embeddings_where_a_rank_has_no_row(self):
        self.train_ranks(1, "for_rows", "train.epochs=1")
        (self.folder / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n no image")
        rows = self.folder / "rows.csv"
        for images, code, count in ((["val/c0/500.png"], 0, 3), (["torn.png", "val/c0/500.png"], 3, 2),
                                    (["val/c0/500.png", "torn.png"], 3, 2)):
            command = ["classify", "runs/for_rows/best.safetensors", *images, "--embeddings", "rows.csv", "--device",
                       "cpu", "--batch-size", "1"]
            self.run_ranks(1, command, code)
            one = rows.read_bytes()
            self.assertEqual(one.count(b"\n"), 2)
            rows.unlink()
            self.run_tcp(count, command, code)
            self.assertEqual(rows.read_bytes(), one, images)
        command[2:4] = ["torn.png"]
        none = self.run_tcp(2, command, 3)
        self.assertEqual(none.stderr.count("no image could be read: nothing is written"), 1, none.stderr)
        self.assertEqual(rows.read_bytes(), one)

    def test_outputs_are_refused_as_on_one_rank(self):
        self.train_ranks(1, "for_refused", "train.epochs=1")
        weights = "runs/for_refused/best.safetensors"
        annotated = {}
        for name, command in (("p.csv", ["evaluate", weights, "val", "--predictions"]),
                              ("e.csv", ["classify", weights, "val", "--embeddings"])):
            self.run_tcp(2, [*command, name, "--device", "cpu"])
            self.run_tcp(2, [*command, name, "--device", "cpu"])  # its own, twice
            annotated[name] = (self.folder / name).read_text().replace("\n", ",seen\n")
            (self.folder / name).write_text(annotated[name])
        for command, says, lines in (
                (["evaluate", weights, "val", "--predictions", "p.csv"], "or was edited since", None),
                (["classify", weights, "val", "--embeddings", "e.csv"], "or was edited since", None),
                (["classify", weights, "-", "--embeddings", "e.csv"], "or was edited since", "val/c0/500.png\n"),
                (["evaluate", weights, "val", "--predictions", "val/new.csv"], "lies in the folder", None),
                (["evaluate", weights, "-", "--predictions", "val/new.csv"], "lies in the folder", "val\n"),
                (["classify", weights, "-", "--embeddings", "val/new.csv"], "lies in the folder", "val\n")):
            with self.subTest(command):
                ranks = with_variables([PROGRAM, *command, "--device", "cpu"], 2, self.folder, lines=lines)
                self.assertEqual([rank[0] for rank in ranks], [2, 2], ranks)
                self.assertIn(says, ranks[0][2])
                self.assertEqual(ranks[0][1] + ranks[1][1], "")
        for name, text in annotated.items():
            self.assertEqual((self.folder / name).read_text(), text)
        self.assertFalse((self.folder / "val/new.csv").exists())

    def test_a_rank_without_the_run_folder_trains_on(self):
        (self.folder / "elsewhere").mkdir()
        command = [PROGRAM, "train", str(self.folder / "plain.yaml"), f"data.train={self.folder}/train",
                   f"data.val={self.folder}/val", "name=apart", "train.log_ranks=true", "train.profile=2"]
        done = subprocess.run([*MPIRUN, "1", "--wdir", str(self.folder), *command, ":", "-n", "1", "--wdir",
                               str(self.folder / "elsewhere"), *command], cwd=self.folder, text=True, timeout=240,
                              env=dict(os.environ, **MPI), capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        run = self.folder / "runs/apart"
        for said in (done.stderr, (run / "log.txt").read_text()):
            self.assertIn("cannot write to the run folder, so its log.rankN.txt and trace.rankN.json are left out", said)
        self.assertTrue((run / "trace.json").exists())
        self.assertFalse((run / "trace.rank1.json").exists())
        self.assertEqual(list((self.folder / "elsewhere").iterdir()), [])

    def test_classify_answers_in_order(self):
        for name, config, inputs in (
                ("texts", "sentences.yaml", [word for text in ("good fine", "bad", "so so", "poor bad so", "fine")
                                             for word in ("--text", text)]),
                ("forecasts", "series.yaml", ["series.csv", "series2.csv", "series.csv"])):
            shutil.copy(self.folder / "series.csv", self.folder / "series2.csv")
            self.train_ranks(1, f"for_{name}", "train.epochs=1", config=config)
            for form in ([], ["--json"], ["--jsonl"]):
                command = ["classify", f"runs/for_{name}/best.safetensors", *inputs, *form, "--device", "cpu",
                           "--batch-size", "1"]
                one = self.run_ranks(1, command).stdout
                self.assertEqual(one, self.run_tcp(2, command).stdout)
                if form == ["--json"]:
                    json.loads(one)

    def test_a_list_of_devices_starts_ranks(self):
        self.train_ranks(1, "for_list", "train.epochs=1")
        (self.folder / "listed").mkdir()
        shutil.copy(self.folder / "val/c0/500.png", self.folder / "listed/a.png")
        (self.folder / "listed/b.png").write_bytes(b"no image")
        weights = "runs/for_list/best.safetensors"
        for command, code in ((["evaluate", weights, "val"], 0), (["classify", weights, "val", "listed"], 3)):
            one, other = (self.whisker(*command, "--batch-size", "3", "--device", device, code=code)
                          for device in ("cpu", "cpu,cpu"))
            self.assertEqual((one.stdout, one.stderr), (other.stdout, other.stderr))
        done = self.whisker("evaluate", weights, "val", "--gpus", "2", "--device", "cpu", code=2)
        self.assertIn("--gpus 2: not with device: cpu", done.stderr)
        done = self.whisker("classify", weights, "-", "--device", "cpu,cpu", input="val/c0/500.png\n")
        self.assertEqual(len(done.stdout.splitlines()), 1)

    def test_a_reader_that_goes_away_ends_all_quietly(self):
        self.train_ranks(1, "for_head", "train.epochs=1")
        command = [PROGRAM, "classify", "runs/for_head/best.safetensors", "val", "--device", "cpu", "--batch-size", "1"]
        reader, writer = os.pipe()
        os.close(reader)
        port = free_port()
        ranks = [subprocess.Popen(command, cwd=self.folder, text=True, stdout=writer, stderr=subprocess.PIPE,
                                  env=dict(os.environ, RANK=rank, WORLD_SIZE="2", MASTER_PORT=str(port)))
                 for rank in "01"]
        os.close(writer)
        self.assertEqual([rank.communicate(timeout=60)[1] for rank in ranks], ["", ""])
        self.assertEqual([rank.returncode for rank in ranks], [-signal.SIGPIPE, 128 + signal.SIGPIPE])

    def test_srun_and_mpirun_evaluate_likewise(self):
        self.train_ranks(1, "for_launchers", "train.epochs=1")
        command = ["evaluate", "runs/for_launchers/best.safetensors", "val", "--device", "cpu", "--json"]
        one = json.loads(self.run_ranks(1, command).stdout)
        ranks = with_variables([PROGRAM, *command], 3, self.folder, "srun")
        self.assert_same_result(one, json.loads(ranks[0][1]))
        self.assertEqual([out for _, out, _ in ranks[1:]], ["", ""])
        self.assert_same_result(one, json.loads(self.run_ranks(2, command).stdout))

    def test_a_second_run_on_the_same_port_is_told(self):
        self.train_ranks(1, "for_port", "train.epochs=1")
        command = [PROGRAM, "evaluate", "runs/for_port/best.safetensors", "val", "--device", "cpu", "--json"]
        port = free_port()
        first, late = (dict(os.environ, RANK=rank, WORLD_SIZE="2", MASTER_PORT=str(port), WHISKER_SECRET="first")
                       for rank in "01")
        waiting = subprocess.Popen(command, cwd=self.folder, text=True, env=first, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        for _ in range(1000):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.01)
        second = self.whisker(*command[1:], code=5, env=dict(first, WHISKER_SECRET="second"))
        self.assertIn(f"cannot listen at 127.0.0.1:{port}", second.stderr)
        self.assertIn("set MASTER_PORT to one that is free", second.stderr)
        stranger = self.whisker(*command[1:], code=5, env=dict(late, WHISKER_SECRET="second"))
        self.assertIn("its secret is not this run's", stranger.stderr)
        self.whisker(*command[1:], env=late)
        out, err = waiting.communicate(timeout=60)
        self.assertEqual(waiting.returncode, 0, err)
        self.assertEqual(json.loads(out)["images"], 10)

    def test_max_restarts_goes_on_after_a_kill(self):
        whole = self.train("uninterrupted", "train.epochs=24", "checkpoint.every=3")
        launcher = self.start("train", "c.yaml", *self.data, "name=restarted", "train.epochs=24", "checkpoint.every=3",
                              "--max-restarts", "2")
        run = self.folder / "runs/restarted"
        self.wait_for(run / "last/state.json", '"epoch"')
        children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        self.assertEqual(len(children), 1)
        os.kill(int(children[0]), signal.SIGKILL)
        out, err = launcher.communicate(timeout=120)
        self.assertEqual(launcher.returncode, 0, err)
        self.assertEqual(out, "runs/restarted\n")
        self.assertIn("signal 9 (Killed); restart 1 of 2 from the last checkpoint in runs/restarted", err)
        self.assertEqual(*((one / "best.safetensors").read_bytes()[-1000:] for one in (whole, run)))
        self.assertEqual(len(self.lines(run, "epoch")), 24)
        done = self.whisker("train", "c.yaml", "data.train=nowhere", "--max-restarts", "2", code=3)
        self.assertNotIn("restart", done.stderr)
        done, _ = self.train_ranks(2, "not_ours", "--max-restarts", "1", code=2)
        self.assertIn("--max-restarts: only for ranks that whisker starts itself", done.stderr)

    def test_a_nan_on_one_rank_ends_all(self):
        for extra in ([], ["data.train=uneven", "loss.class_weights=balanced"]):
            command = [os.environ["WHISKER_RANK_STEPS"], "plain.yaml", "nan", *self.data, "name=nan", *extra]
            os.environ["NAN_RANK"] = "1"
            process = with_mpi(command, 3, self.folder)
            del os.environ["NAN_RANK"]
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 7, out + err)
            self.assertIn("rank 1 on ", err)
            self.assertIn("training diverged at epoch ", err)
            self.assertIn("the loss is NaN or Inf; first seen in the inputs", err)

    def test_sequences_are_split_likewise(self):
        for name in ("text", "sentences", "series"):
            one = self.train_ranks(1, f"{name}1", config=f"{name}.yaml")[1]
            for count in (2, 4):
                run = self.train_ranks(count, f"{name}{count}", config=f"{name}.yaml")[1]
                self.assert_same_course(one, run)

    def test_weights_are_equal_after_every_step_and_examples_those_of_one_rank(self):
        steps = {}
        for count in (1, 2, 4):
            command = [os.environ["WHISKER_RANK_STEPS"], "plain.yaml", f"out{count}", *self.data, f"name=steps{count}"]
            process = with_mpi(command, count, self.folder)
            out, err = process.communicate(timeout=240)
            self.assertEqual(process.returncode, 0, out + err)
            ranks = [[line.split() for line in (self.folder / f"out{count}.{rank}").read_text().splitlines()]
                     for rank in range(count)]
            for lines in zip(*ranks):
                self.assertEqual(len({(line[0], line[1]) for line in lines}), 1, lines)  # step and hash
            together = []
            for lines in zip(*ranks):
                rows = [line[2:] for line in lines]
                together.append([part[i] for i in range(len(rows[0])) for part in rows if i < len(part)])
            steps[count] = together
        self.assertEqual(len(steps[1]), 18)
        self.assertEqual(steps[1], steps[2])
        self.assertEqual(steps[1], steps[4])

    def test_synchronised_batch_norm_is_that_of_one_rank(self):
        for overrides in ([], ["train.accumulate=2"], ["train.batch_size=7"]):
            number = len(overrides) + sum(map(len, overrides))
            one = self.train_ranks(1, f"norm{number}_1", *overrides, config="normed.yaml")[1]
            for count in (2, 4):
                run = self.train_ranks(count, f"norm{number}_{count}", *overrides, config="normed.yaml")[1]
                self.assert_same_course(one, run, 1e-5)
        done, _ = self.train_ranks(4, "empty", "train.drop_last=false", config="normed.yaml", code=2)
        self.assertIn("train.sync_batch_norm: expected an example for each of 4 ranks in every batch, got 2 in the last "
                      "batch of an epoch (42 training images in batches of 8). Use train.drop_last=true", done.stderr)
        self.assertFalse((self.folder / "runs/empty").exists())

    def test_a_run_goes_on_with_another_number_of_ranks(self):
        for config, name in (("plain.yaml", "images"), ("text.yaml", "words")):
            whole = self.train_ranks(1, f"whole_{name}", "train.epochs=6", config=config)[1]
            run = self.train_ranks(4, f"part_{name}", "train.epochs=2", config=config)[1]
            for count, epochs in ((2, 4), (1, 6)):
                self.run_ranks(count, ["train", "--resume", str(run), f"train.epochs={epochs}"])
            self.assert_same_course(whole, run, 1e-5)

    def test_the_same_number_of_ranks_repeats_bit_for_bit(self):
        whole = self.train_ranks(2, "bits_whole", "train.epochs=4", "deterministic=true")[1]
        part = self.train_ranks(2, "bits_part", "train.epochs=2", "deterministic=true")[1]
        self.run_ranks(2, ["train", "--resume", str(part), "train.epochs=4"])
        self.assert_same_bits(whole, part)

    def assert_same_bits(self, *runs):
        for kind in ("model", "optim"):
            tensors = []
            for run in runs:
                content = next((run / "last").glob(f"{kind}-*.safetensors")).read_bytes()
                tensors.append(content[8 + struct.unpack("<Q", content[:8])[0]:])
            self.assertGreater(len(tensors[0]), 500)
            self.assertEqual(tensors[0], tensors[1])

    def test_recomputed_blocks_leave_the_same_bits(self):
        runs = []
        for recompute in ("false", "true"):
            done, run = self.train_ranks(2, f"recompute_{recompute}", "deterministic=true",
                                         f"model.recompute={recompute}", config="normed.yaml")
            self.assertEqual("recomputed in backward: 1 block, residual" in done.stdout + done.stderr,
                             recompute == "true", done.stdout + done.stderr)
            runs.append(run)
        self.assert_same_bits(*runs)

    def ranks_of(self, run):
        """Process ids of the ranks that train `run`, by rank."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_text(errors="replace").split("\0")
                variables = dict(one.partition("=")[::2] for one in (folder / "environ").read_text(errors="replace").split("\0"))
            except OSError:
                continue
            if words[0] == PROGRAM and run in words and "OMPI_COMM_WORLD_RANK" in variables:
                found[int(variables["OMPI_COMM_WORLD_RANK"])] = int(folder.name)
        return found

    def start_long(self, count, name, variables=()):
        run = f"runs/{name}"
        process = with_mpi([PROGRAM, "train", "plain.yaml", *self.data, f"name={name}", "train.epochs=100000",
                            "checkpoint.every=20"], count, self.folder, variables, start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and process.terminate())
        self.wait_for(self.folder / run / "metrics.jsonl", '"step"', 25)
        ranks = self.ranks_of(f"name={name}")
        self.assertEqual(sorted(ranks), list(range(count)))
        return process, ranks, self.folder / run

    def wait_until_gone(self, process, name, seconds):
        begin = time.monotonic()
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.fail(f"still there after {seconds} s")
        while self.ranks_of(f"name={name}"):
            self.assertLess(time.monotonic() - begin, seconds, "a rank is still there")
            time.sleep(0.05)
        return out + err

    def test_a_killed_rank_ends_all_and_the_run_goes_on(self):
        generator = random.Random(3)
        for i in range(200 if LONG else 4):  # 50 of each rank
            name, count = f"killed{i}", 4 if LONG else 2 + i % 3
            process, ranks, run = self.start_long(count, name)
            self.wait_for(run / "last/state.json", '"epoch"')
            if i > 0:
                time.sleep(generator.uniform(0, 1))
            victim = i % count
            os.kill(ranks[victim], signal.SIGKILL)
            self.wait_until_gone(process, name, 10)
            self.assertNotEqual(process.returncode, 0)
            if i % 50 > 0:
                shutil.rmtree(run)
                continue
            epoch = json.loads((run / "last/state.json").read_text())["epoch"]
            self.run_ranks(count, ["train", "--resume", str(run), f"train.epochs={epoch + 1}"])
            whole = self.train_ranks(count, f"unkilled{i}", f"train.epochs={epoch + 1}")[1]
            self.assert_same_course(whole, run, 1e-4)

    def test_a_hung_rank_is_found(self):
        silence = 20 if LONG else 4
        process, ranks, _ = self.start_long(2, "hung", {} if LONG else {"WHISKER_SILENCE_S": str(silence)})
        os.kill(ranks[1], signal.SIGSTOP)
        said = self.wait_until_gone(process, "hung", silence + 10)
        self.assertIn(f"has not answered for {silence} s: it hangs", said)
        self.assertIn("rank 1 on ", said)

    def test_a_signal_to_one_rank_stops_all_at_the_same_step(self):
        for name, number in (("signalled", signal.SIGTERM), ("warned", signal.SIGUSR1)):
            process, ranks, run = self.start_long(3, name)
            # mpirun passes SIGUSR1 on.
            os.kill(ranks[2] if number == signal.SIGTERM else process.pid, number)
            said = self.wait_until_gone(process, name, 10)
            self.assertEqual(process.returncode, 75, said)
            state = json.loads((run / "last/state.json").read_text())
            self.assertEqual(state["step"], self.lines(run, "step")[-1]["step"])
            self.run_ranks(2, ["train", "--resume", str(run), f"train.epochs={state['epoch'] + 1}"])

    def test_recorded_steps_train_as_others_and_rank_0_writes_them(self):
        plain, recorded = (self.train_ranks(2, name, *more)[1]
                           for name, more in (("bare", []), ("rows", ["train.histogram_every=2"])))
        self.assertEqual(*((run / "best.safetensors").read_bytes()[-1000:] for run in (plain, recorded)))
        rows = [json.loads(line) for line in (recorded / "histograms.jsonl").read_text().splitlines()]
        steps = [row["step"] for row in rows]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[:2], [1, 3])
        self.assertEqual(rows[0]["examples"], 4)  # of a batch of 8

    def test_an_error_names_the_rank(self):
        done, _ = self.train_ranks(2, "diverged", "optimizer.kind=sgd", "optimizer.lr=1e30", code=7)
        self.assertIn("whisker: error: rank ", done.stderr)
        self.assertIn("training diverged", done.stderr)
        self.assertIn("first NaN or Inf: the ", self.whisker("study", "nan", "runs/diverged").stdout)
        done, _ = self.train_ranks(2, "small", "train.batch_size=1", code=2)
        self.assertIn("at least one example for each of 2 ranks", done.stderr)
        self.assertFalse((self.folder / "runs/small").exists())

    def test_devices_check_adds_up_over_ranks(self):
        done = self.run_ranks(3, ["devices", "--check"])
        self.assertIn("3 ranks, Open MPI", done.stdout)
        self.assertEqual(done.stdout.count("same on all ranks"), 4, done.stdout)
        self.assertIn("host memory", done.stdout)
        report = json.loads(self.run_ranks(2, ["devices", "--check", "--json"]).stdout)
        self.assertEqual([rank["device"] for rank in report["ranks"]], ["cpu", "cpu"])
        self.assertEqual([(link["from"], link["to"]) for link in report["links"]], [(0, 1)])
        for one in report["all_reduces"]:
            self.assertTrue(one["same_on_all_ranks"])
            self.assertLess(one["error"], 1e-6)

    def test_ranks_on_cpus_need_mpi(self):
        done = self.whisker("train", "plain.yaml", *self.data, "device=cpu,cpu", code=2)
        self.assertIn("Start them with mpirun -n 2", done.stderr)

    def test_gpus_need_gpus(self):
        done = self.whisker("train", "plain.yaml", *self.data, "--gpus", "2", code=2)
        self.assertIn("--gpus 2: not with device: cpu. Use mpirun -n N", done.stderr)


if __name__ == "__main__":
    unittest.main()
