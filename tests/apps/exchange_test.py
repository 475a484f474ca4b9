"""Weights from and for other programs: import of PyTorch's files, export as ONNX.

    exchange_test.py [-v]              with $WHISKER naming the program

Where Python has onnxruntime, exported networks are run and compared with `whisker classify`.
"""

import argparse
import json
import math
import pathlib
import struct
import sys
import unittest

from harness import ProgramTest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import torch_files  # noqa: E402

try:
    import numpy
    import onnxruntime
except ImportError:
    onnxruntime = None

# Every layer that images can go through, in few parameters.
LAYERS = """device: cpu
data: {image_size: 20, resize_short: 24, workers: 1, mean: [0.4], std: [0.3]}
model:
  layers:
    - conv2d: {filters: 8, kernel: [3, 4], padding: same, strides: 1, activation: leaky_relu}
    - batch_norm: {activation: relu}
    - max_pool2d: {kernel: 3, strides: 2, ceil: true}
    - residual:
        body: [{conv2d: {filters: 8, kernel: 3, padding: 2, dilation: 2, groups: 4}}, group_norm: 2]
    - residual:
        body: [{conv2d: {filters: 12, kernel: 4, strides: 2, padding: same, activation: silu}}, layer_norm]
        projection: [{conv2d: {filters: 12, kernel: 1, strides: 2}}]
        activation: gelu
    - concat:
        - [{avg_pool2d: {kernel: 3, strides: 1, padding: 1, count_padding: true}}, softplus]
        - [{avg_pool2d: {kernel: 3, strides: 1, padding: 1}}, {dense: {units: 4, activation: tanh}}]
    - multiply: [[], [global_avg_pool2d, {dense: {units: 16, activation: sigmoid}}]]
    - {avg_pool2d: {kernel: 2, ceil: true}}
    - adaptive_avg_pool2d: 2
    - softmax
    - dropout: 0.2
    - flatten
    - batch_norm
    - layer_norm
    - {dense: {units: 6, activation: relu}}
    - group_norm: 3
  head:
    - dense: {units: classes}
train: {epochs: 1, batch_size: 8}
"""

TEXTS = """device: cpu
data: {kind: text, train: texts.csv, val_split: 0.25}
model:
  layers:
    - embedding: {input_dim: vocabulary, output_dim: 6}
    - lstm: {units: 5, layers: 2, bidirectional: true, return_sequences: true}
    - {dense: {units: 7, activation: tanh}}
    - batch_norm
    - gru: {units: 4, layers: 2, return_sequences: true}
    - simple_rnn: {units: 5, bidirectional: true, activation: relu, return_sequences: true}
    - gru: {units: 4, bidirectional: true}
  head:
    - dense: {units: 1, activation: sigmoid}
train: {epochs: 1, batch_size: 8}
"""


def tensors_of(path):
    """A safetensors file's tensors, as bytes by name with dtype and shape."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"],
                   content[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items()}


def as_torch(path, prefix=""):
    """The tensors of a safetensors file for torch_files.save()."""
    kinds = {"F32": (torch_files.FLOAT, "f", 4), "I64": (torch_files.LONG, "q", 8)}
    result = {}
    for name, (dtype, shape, content) in tensors_of(path).items():
        kind, code, width = kinds[dtype]
        values = struct.unpack(f"<{len(content) // width}{code}", content)
        result[prefix + name] = torch_files.tensor(values, shape, kind)
    return result


class Exchange(ProgramTest):
    def refused(self, code, text, *arguments):
        done = self.whisker(*arguments, code=code)
        self.assertEqual(done.stdout, "")
        self.assertIn(text, done.stderr)

    def probabilities(self, weights, *inputs, options=()):
        done = self.whisker("classify", weights, *inputs, "--jsonl", "--top", "1000", *options)
        rows = [json.loads(line)["predictions"] for line in done.stdout.splitlines()]
        return [{one["class"]: one["probability"] for one in row} for row in rows]

    def test_import(self):
        state, wrapped = torch_files.samples()
        torch_files.save(state, self.folder / "w.pth")
        torch_files.save_old(wrapped, self.folder / "w.pt")
        for name in ("w.pth", "w.pt"):
            done = self.whisker("import", name, "-o", "w.safetensors", "--force")
            self.assertIn("no preset has its tensors", done.stderr)
            tensors = tensors_of(self.folder / "w.safetensors")
            self.assertEqual(sorted(tensors), sorted(state))
            self.assertEqual(tensors["transposed"],
                             ("F32", [4, 3], struct.pack("<12f", 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11)))
            self.assertEqual(tensors["half"], ("F16", [2], struct.pack("<2e", 0.5, -2)))
        self.refused(2, "is an input of this command", "import", "w.pth", "-o", "./w.pth", "--force")
        torch_files.save({"state_dict": state, "arch": "resnet50"}, self.folder / "moco.pth")
        done = self.whisker("import", "moco.pth", "-o", "moco.safetensors", "--names", "file")
        self.assertIn("no preset has its tensors, though its checkpoint says resnet50: the result does not say",
                      done.stderr)
        self.assertEqual(sorted(tensors_of(self.folder / "moco.safetensors")), sorted(state))

    def test_dense_layers_of_vgg_are_convolutions_in_timm(self):
        shapes = {"features.0.weight": [2, 3, 3, 3], "classifier.0.weight": [4, 98], "classifier.0.bias": [4],
                  "classifier.3.weight": [4, 4], "classifier.6.weight": [5, 4]}
        torch_files.save({name: torch_files.tensor(range(math.prod(shape)), shape) for name, shape in shapes.items()},
                         self.folder / "vgg.pth")
        self.whisker("import", "vgg.pth", "-o", "timm.safetensors", "--names", "timm")
        timm = tensors_of(self.folder / "timm.safetensors")
        self.assertEqual({name: shape for name, (_, shape, _) in timm.items()},
                         {"features.0.weight": [2, 3, 3, 3], "pre_logits.fc1.weight": [4, 2, 7, 7],
                          "pre_logits.fc1.bias": [4], "pre_logits.fc2.weight": [4, 4, 1, 1],
                          "head.fc.weight": [5, 4]})
        self.whisker("import", "timm.safetensors", "-o", "back.safetensors", "--names", "torchvision")
        back = tensors_of(self.folder / "back.safetensors")
        self.assertEqual({name: shape for name, (_, shape, _) in back.items()}, shapes)
        self.assertEqual(back["classifier.0.weight"][2], timm["pre_logits.fc1.weight"][2])

    def test_nothing_is_executed(self):
        marker = self.folder / "executed"

        class Call:
            def __reduce__(self):
                return open, (str(marker), "w")

        torch_files.save({"a": torch_files.tensor([1]), "b": Call()}, self.folder / "call.pth")
        for arguments in (["import", "call.pth", "-o", "x.safetensors"], ["classify", "call.pth", "val"],
                          ["evaluate", "call.pth", "val"], ["train", "c.yaml", *self.data, "--init", "call.pth"]):
            # Of the module that open says it is from: io, or _io since Python 3.12.
            self.refused(4, f"'{open.__module__}.open', which Python would import and may call. Nothing was executed.",
                         *arguments)
        self.assertFalse(marker.exists())
        torch_files.save({"a": torch_files.tensor([1], kind=torch_files.SHORT)}, self.folder / "short.pth")
        self.refused(4, "got a torch.ShortStorage", "import", "short.pth", "-o", "x.safetensors")

    def test_weights_of_pytorch_are_accepted_everywhere(self):
        """SqueezeNet's, as DataParallel saves them, is recognised."""
        (self.folder / "s.yaml").write_text("device: cpu\ndata: {image_size: 64, workers: 1}\nmodel: squeezenet1_1\n"
                                            "train: {epochs: 1, batch_size: 20}\n")
        self.whisker("train", "s.yaml", *self.data, "name=squeeze")
        best = self.folder / "runs/squeeze/best.safetensors"
        torch_files.save({"state_dict": as_torch(best, "module.")}, self.folder / "s.pth")
        (self.folder / "names.txt").write_text("c0\nc1\n")
        images = ["val/c0/500.png", "val/c1/501.png"]
        how = ["--input", "image_size=64", "--input", "resize_short=0", "--input", "mean=[0]", "--input", "std=[1]"]
        options = ["--classes", "names.txt", *how]
        expected = self.probabilities(best, *images)
        self.assertEqual(self.probabilities("s.pth", *images, options=options), expected)
        done = self.whisker("classify", "s.pth", *images)
        self.assertIn("recognised by its tensors as squeezenet1_1 of 2 classes, numbered from 0", done.stderr)
        self.assertIn("as the preset squeezenet1_1 expects them", done.stderr)
        for command in (["classify", "s.pth", *images], ["evaluate", "s.pth", "val"],
                        ["import", "s.pth", "-o", "named.safetensors"], ["export", "s.pth", "-o", "named.onnx"]):
            done = self.whisker(*command, "--model", "squeezenet1_1", "--classes", "names.txt")
            self.assertIn("recognised by --model as squeezenet1_1", done.stderr)
        (self.folder / "s.pth").rename(self.folder / "resnet18-f37072fd.pth")
        self.refused(4, "its file name says resnet18, but its tensors are those of another network",
                     "classify", "resnet18-f37072fd.pth", *images)
        for said in ({"arch": "resnet18"}, {"args": argparse.Namespace(model="resnet18")}):
            torch_files.save({"state_dict": as_torch(best, "module."), **said}, self.folder / "said.pth")
            self.refused(4, "its checkpoint says resnet18, but its tensors are those of another network",
                         "classify", "said.pth", *images)
        (self.folder / "resnet18-f37072fd.pth").rename(self.folder / "s.pth")
        self.whisker("evaluate", "s.pth", "val", *options)
        self.whisker("import", "s.pth", "-o", "s.safetensors", *options)
        self.assertEqual(self.metadata("s.safetensors")["arch"], "squeezenet1_1")
        self.assertEqual(json.loads(self.metadata("s.safetensors")["classes"]), ["c0", "c1"])
        self.assertEqual(self.probabilities("s.safetensors", *images), expected)
        self.assertEqual(tensors_of(self.folder / "s.safetensors"), tensors_of(best))
        torch_files.save({"state_dict": as_torch(best, "model.")}, self.folder / "lightning.ckpt")
        self.whisker("import", "lightning.ckpt", "-o", "lightning.safetensors", "--names", "torchvision")
        self.assertEqual(tensors_of(self.folder / "lightning.safetensors"), tensors_of(best))
        self.refused(2, "--classes: expected 2 names for s.pth, got 1000", "classify", "s.pth", *images,
                     "--classes", "imagenet")
        self.refused(2, "one of the keys image_size, resize_short", "classify", "s.pth", *images, "--input", "a=1")
        done = self.whisker("train", "s.yaml", *self.data, "name=again", "--init", "s.pth")
        self.assertIn("52 tensors loaded from s.pth", done.stderr)
        # A trainer's checkpoint, whose average is of zeros.
        state = as_torch(best)
        zeros = {"net." + name: torch_files.tensor([0] * value.arguments[0].count, value.arguments[2])
                 for name, value in state.items()}
        torch_files.save({"model": state, "model_ema": zeros, "epoch": 3, "args": argparse.Namespace(lr=0.1)},
                         self.folder / "trainer.pth")
        done = self.whisker("classify", "trainer.pth", *images, *options)
        self.assertIn("trainer.pth: 52 tensors of 'model' are read; left out: 'model_ema' (52 tensors: --weights-key "
                      "model_ema), 'epoch', 'args'; objects are not built: argparse.Namespace", done.stderr)
        self.assertEqual(self.probabilities("trainer.pth", *images, options=options), expected)
        for command in (["classify", "trainer.pth", *images], ["evaluate", "trainer.pth", "val"]):
            done = self.whisker(*command, *options, "--weights-key", "model_ema")
            self.assertIn("52 tensors of 'model_ema' are read", done.stderr)
        even = [{"c0": 0.5, "c1": 0.5}] * 2
        self.assertEqual(self.probabilities("trainer.pth", *images, options=[*options, "--weights-key", "model_ema"]),
                         even)
        done = self.whisker("train", "s.yaml", *self.data, "name=ema", "--init", "trainer.pth", "init.key=model_ema")
        self.assertIn("52 tensors of 'model_ema' are read", done.stderr)
        self.assertIn("52 tensors of 'model_ema' are read", (self.folder / "runs/ema/log.txt").read_text())

    def test_weights_that_give_no_numbers_are_one_error(self):
        self.whisker("train", "c.yaml", *self.data, "name=small", "train.epochs=1")
        best = self.folder / "runs/small/best.safetensors"
        content = bytearray(best.read_bytes())
        header = 8 + struct.unpack("<Q", content[:8])[0]
        entries = json.loads(bytes(content[8:header]))
        for name, entry in entries.items():
            if entry.get("dtype") == "F32":
                begin, end = entry["data_offsets"]
                content[header + begin:header + end] = struct.pack("<f", 3e38) * ((end - begin) // 4)
        (self.folder / "huge.safetensors").write_bytes(content)
        for arguments in (["classify", "huge.safetensors", "val"], ["evaluate", "huge.safetensors", "val"],
                          ["evaluate", "huge.safetensors", "val", "--json"],
                          ["classify", "huge.safetensors", "val", "--jsonl", "--tta"]):
            self.refused(4, "huge.safetensors: expected outputs that are numbers, got NaN or Inf for", *arguments)

    def exported(self, weights, *options):
        """The exported network in ONNX Runtime, or None where that is missing."""
        done = self.whisker("export", weights, "-o", "model.onnx", *options, code=None)
        if "was built without ONNX" in done.stderr:
            self.assertEqual(done.returncode, 2)
            self.skipTest("built without ONNX")
        self.assertEqual(done.returncode, 0, done.stderr)
        if onnxruntime is None:
            return None
        return onnxruntime.InferenceSession(self.folder / "model.onnx", providers=["CPUExecutionProvider"])

    def expect_close(self, result, expected, within=1e-4):
        for row, predictions in zip(result, expected, strict=True):
            for value, wanted in zip(row, [predictions[name] for name in sorted(predictions)], strict=True):
                self.assertAlmostEqual(float(value), wanted, delta=within)

    def test_export_of_every_image_layer(self):
        (self.folder / "l.yaml").write_text(LAYERS)
        self.whisker("train", "l.yaml", *self.data, "name=layers")
        weights = self.folder / "runs/layers/best.safetensors"
        session = self.exported(weights, "--probabilities", "--preprocess")
        if session is None:
            return
        metadata = session.get_modelmeta().custom_metadata_map
        self.assertEqual(json.loads(metadata["classes"]), ["c0", "c1"])
        self.assertEqual(json.loads(metadata["preprocess"])["resize_short"], 24)
        paths = [self.folder / "val" / name for name in ("c0/500.png", "c1/504.png", "c1/501.png")]
        for path in paths:
            pixels = self.pixels(path)
            self.expect_close(session.run(None, {"pixels": pixels[None]})[0], self.probabilities(weights, path), 0.005)
        # Without resampling there is no rounding either, and logits of several images come at once.
        options = ["--input", "image_size=16", "--input", "resize_short=0"]
        session = self.exported(weights, "--probabilities", "--preprocess", *options)
        pixels = numpy.stack([self.pixels(path)[:16, :16] for path in paths])
        for number, one in enumerate(pixels):
            (self.folder / f"cut{number}.png").write_bytes(self.png_of(one))
        expected = self.probabilities(weights, *[f"cut{number}.png" for number in range(3)], options=options)
        self.expect_close(session.run(None, {"pixels": pixels})[0], expected)
        content = weights.read_bytes()
        header = json.loads(content[8:8 + struct.unpack("<Q", content[:8])[0]])
        header["__metadata__"]["calibration"] = '{"temperature":3,"data":["val"],"examples":10,"contents":[]}'
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        warm = self.folder / "warm.safetensors"
        warm.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + struct.unpack("<Q", content[:8])[0]:])
        session = self.exported(warm, "--probabilities", "--preprocess", *options)
        cooled = self.probabilities(warm, *[f"cut{number}.png" for number in range(3)], options=options)
        self.assertNotEqual(cooled, expected)
        self.expect_close(session.run(None, {"pixels": pixels})[0], cooled)
        session = self.exported(weights, *options)
        images = ((pixels.astype(numpy.float32) / 255 - 0.4) / 0.3).transpose(0, 3, 1, 2)
        logits = session.run(["logits"], {"images": images})[0]
        shares = numpy.exp(logits) / numpy.exp(logits).sum(axis=1, keepdims=True)
        self.expect_close(shares, expected)

    def pixels(self, path):
        """Those of a PNG of harness.stripes(), whose rows are not filtered."""
        import zlib
        content = path.read_bytes()
        width, height = struct.unpack(">II", content[16:24])
        at = content.index(b"IDAT")
        size = struct.unpack(">I", content[at - 4:at])[0]
        rows = numpy.frombuffer(zlib.decompress(content[at + 4:at + 4 + size]), numpy.uint8)
        return rows.reshape(height, 1 + width * 3)[:, 1:].reshape(height, width, 3)

    def png_of(self, pixels):
        from harness import png
        return png(pixels.shape[1], pixels.shape[0], lambda x, y: [int(v) for v in pixels[y, x]])

    def test_export_of_recurrent_layers(self):
        lines = [f"{label},{word * (1 + i % 3)}{'xyz'[i % 3]}" for i in range(20)
                 for label, word in (("a", "ab"), ("b", "bba"))]
        (self.folder / "texts.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "t.yaml").write_text(TEXTS)
        self.whisker("train", "t.yaml", "name=texts")
        weights = self.folder / "runs/texts/best.safetensors"
        session = self.exported(weights, "--probabilities")
        self.refused(2, "expected a network on images", "export", weights, "-o", "x.onnx", "--preprocess")
        if session is None:
            return
        vocabulary = json.loads(session.get_modelmeta().custom_metadata_map["sequence"])["vocabulary"]
        texts = ["abab", "b", "bbaxabz"]
        tokens = numpy.zeros((7, 3), numpy.int64)
        for column, one in enumerate(texts):
            tokens[:len(one), column] = [2 + vocabulary.index(letter) for letter in one]
        lengths = numpy.array([len(one) for one in texts])
        done = self.whisker("classify", weights, "--jsonl", "--top", "2", *[f"--text={one}" for one in texts])
        expected = [{one["class"]: one["probability"] for one in json.loads(line)["predictions"]}
                    for line in done.stdout.splitlines()]
        self.expect_close(session.run(None, {"tokens": tokens, "lengths": lengths})[0], expected)

    def test_export_of_a_language_model(self):
        (self.folder / "words.txt").write_text("the cat sat on the mat and ate the rat\n" * 30)
        (self.folder / "m.yaml").write_text(
            "device: cpu\ndata: {kind: language, train: words.txt, val_split: 0.1, text: {steps: 8}}\nmodel:\n"
            "  layers: [{embedding: {input_dim: vocabulary, output_dim: 8}}, {gru: {units: 16, return_sequences: true}}]\n"
            "  head: [{dense: {units: classes}}]\ntrain: {epochs: 3, batch_size: 8}\n")
        self.whisker("train", "m.yaml", "name=language")
        weights = self.folder / "runs/language/best.safetensors"
        session = self.exported(weights)
        if session is None:
            return
        vocabulary = json.loads(session.get_modelmeta().custom_metadata_map["sequence"])["vocabulary"]
        text = prompt = "the c"
        for _ in range(8):
            tokens = numpy.array([[2 + vocabulary.index(letter)] for letter in text])
            logits = session.run(["logits"], {"tokens": tokens})[0]
            self.assertEqual(logits.shape, (len(text), 1, 2 + len(vocabulary)))
            text += vocabulary[int(logits[-1, 0, 2:].argmax())]
        done = self.whisker("generate", weights, "--prompt", prompt, "--length", "8", "--temperature", "0")
        self.assertEqual(done.stdout, text + "\n")

    def test_export_of_a_forecast(self):
        (self.folder / "series.csv").write_text("".join(f"{i},{50 + i % 7 * 3}\n" for i in range(90)))
        (self.folder / "f.yaml").write_text(
            "device: cpu\ndata: {kind: series, train: series.csv, val_split: 0.25, series: {columns: [2], window: 6}}\n"
            "model: {layers: [{simple_rnn: {units: 4, batch_first: false}}, {dense: {units: 1}}]}\n"
            "train: {epochs: 2, batch_size: 8}\n")
        self.whisker("train", "f.yaml", "name=forecast")
        weights = self.folder / "runs/forecast/best.safetensors"
        session = self.exported(weights)
        self.refused(2, "a forecast has none", "export", weights, "-o", "x.onnx", "--probabilities")
        if session is None:
            return
        about = json.loads(session.get_modelmeta().custom_metadata_map["sequence"])
        values = numpy.array([[[50 + i % 7 * 3]] for i in range(84, 90)], numpy.float32)
        scaling, target = about["scaling"][0], about["target_scaling"][0]
        result = session.run(["forecast"], {"values": (values - scaling["mean"]) / scaling["deviation"]})[0]
        done = self.whisker("classify", weights, "series.csv", "--jsonl")
        self.assertAlmostEqual(float(result[0, 0]) * target["deviation"] + target["mean"],
                               json.loads(done.stdout)["values"][0], delta=1e-3)

    def test_export_refuses_a_projection(self):
        (self.folder / "texts.csv").write_text("a,ab\nb,ba\n" * 8)
        (self.folder / "p.yaml").write_text(
            "device: cpu\ndata: {kind: text, train: texts.csv, val_split: 0.25}\nmodel:\n  layers:\n"
            "    - embedding: {input_dim: vocabulary, output_dim: 4}\n    - lstm: {units: 6, projection: 3}\n"
            "  head: [{dense: {units: classes}}]\ntrain: {epochs: 1, batch_size: 8}\n")
        self.whisker("train", "p.yaml", "name=projected")
        done = self.whisker("export", "runs/projected/best.safetensors", "-o", "p.onnx", code=2)
        if "was built without ONNX" not in done.stderr:
            self.assertIn("ONNX's LSTM has no projection", done.stderr)
        self.assertFalse((self.folder / "p.onnx").exists())


if __name__ == "__main__":
    unittest.main()
