"""Folders as Hugging Face hands them out, and real weights, through every command that takes weights."""

import json
import os
import pathlib
import random
import re
import shutil
import struct
import unittest

from harness import ProgramTest

WEIGHTS = pathlib.Path(os.environ.get("WHISKER_DATA", pathlib.Path(__file__).parents[2] / "../shared/data")) / "weights"
LITE0 = WEIGHTS / "efficientnet-lite0-57934424.pth"


def write_safetensors(path, shapes, metadata):
    draw = random.Random(7)
    header, content = {"__metadata__": metadata}, b""
    for name, shape in shapes.items():
        count = 1
        for extent in shape:
            count *= extent
        values = struct.pack(f"<{count}f", *[draw.uniform(-0.5, 0.5) for _ in range(count)])
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(content), len(content) + len(values)]}
        content += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)


def vit_shapes(dim, hidden, patches, patch, classes):
    """One block, as transformers saves it."""
    def dense(name, rows, columns):
        return {f"{name}.weight": [rows, columns], f"{name}.bias": [rows]}

    def norm(name):
        return {f"{name}.weight": [dim], f"{name}.bias": [dim]}
    block = "vit.encoder.layer.0"
    shapes = {"vit.embeddings.cls_token": [1, 1, dim], "vit.embeddings.position_embeddings": [1, 1 + patches, dim],
              "vit.embeddings.patch_embeddings.projection.weight": [dim, 3, patch, patch],
              "vit.embeddings.patch_embeddings.projection.bias": [dim]}
    for part in ("query", "key", "value"):
        shapes |= dense(f"{block}.attention.attention.{part}", dim, dim)
    shapes |= dense(f"{block}.attention.output.dense", dim, dim) | dense(f"{block}.intermediate.dense", hidden, dim)
    shapes |= dense(f"{block}.output.dense", dim, hidden) | norm(f"{block}.layernorm_before")
    shapes |= norm(f"{block}.layernorm_after") | norm("vit.layernorm") | dense("classifier", classes, dim)
    return shapes | {"vit.pooler.dense.weight": [dim, dim]}


class HubFolders(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vit = cls.folder / "vit"
        cls.vit.mkdir()
        write_safetensors(cls.vit / "model.safetensors", vit_shapes(16, 24, 4, 8, 3), {"format": "pt"})
        # Two of ImageNet's classes have one name.
        names = {"0": "crane", "1": "heron", "2": "crane"}
        (cls.vit / "config.json").write_text(json.dumps({
            "architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 16,
            "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24, "hidden_act": "gelu",
            "layer_norm_eps": 1e-6, "image_size": 16, "patch_size": 8, "num_channels": 3, "id2label": names}))
        (cls.vit / "preprocessor_config.json").write_text(json.dumps({
            "image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 16, "width": 16},
            "resample": 2, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
            "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}))

    def classify(self, weights, *options):
        done = self.whisker("classify", weights, "val/c0", "--device", "cpu", *options)
        return done.stdout, done.stderr

    def test_a_folder_is_a_weights_file(self):
        answers, said = self.classify("vit")
        self.assertEqual(len(answers.splitlines()), 5)
        self.assertRegex(answers, "(crane|heron)")
        self.assertEqual(said, "vit/model.safetensors: 1 tensor of vit.pooler is left out: its classifier does not "
                         "read it\nvit/model.safetensors: recognised by its config.json as transformers' "
                         "ViTForImageClassification of 3 classes\n")
        self.assertEqual(self.classify("vit/model.safetensors"), (answers, said))
        self.whisker("import", "vit", "-o", "vit.safetensors")
        self.assertEqual(self.classify("vit.safetensors"), (answers, ""))
        self.whisker("export", "vit", "-o", "vit.onnx", "--preprocess")
        done = self.whisker("evaluate", "vit", "val", "--classes", os.devnull, code=3)
        self.assertIn("expected class names", done.stderr)

    def test_a_folder_is_fine_tuned(self):
        self.whisker("train", "--data", "train", "--weights", "vit", "name=tuned", "train.epochs=2", "unfreeze_at=1",
                     "device=cpu", "data.workers=1")
        log = (self.folder / "runs/tuned/log.txt").read_text()
        self.assertIn("recognised by its config.json as transformers' ViTForImageClassification", log)
        self.assertIn("preprocessing of model.safetensors: data.image_size=16", log)
        self.assertIn("new head, because the classes differ (weights: crane, heron, crane; data: c0, c1)", log)
        answers, said = self.classify("runs/tuned/best.safetensors")
        self.assertRegex(answers, "c[01] ")
        self.assertEqual(said, "")
        self.whisker("train", "c.yaml", *self.data, "--init", "vit", code=4)  # another network

    def test_other_folders_are_refused(self):
        done = self.whisker("classify", "val", "val", code=4)
        self.assertIn("val: expected a weights file, or a folder with model.safetensors or pytorch_model.bin, got a "
                      "folder.", done.stderr)
        done = self.whisker("classify", "vit", "val", "--model", "vit_s_16", code=2)
        self.assertIn("leave --model out", done.stderr)
        scalars = shutil.copytree(self.vit, self.folder / "scalars")
        shapes = {name: [] if re.search("(query|key|value).weight", name) else shape
                  for name, shape in vit_shapes(16, 24, 4, 8, 3).items()}
        write_safetensors(scalars / "model.safetensors", shapes, {"format": "pt"})
        self.assertIn("the parts of", self.whisker("classify", "scalars", "val", code=4).stderr)

    def test_timms_name_decides_between_networks_of_equal_tensors(self):
        self.whisker("train", "--data", "train", "--model", "mobilenetv3_small_100", "name=small", "train.epochs=1",
                     "data.image_size=32", "data.resize_short=32", "device=cpu")
        timm = self.folder / "timm"
        timm.mkdir()
        metadata, _ = self.safetensors("runs/small/best.safetensors")
        self.assertIn("arch", metadata)
        self.whisker("import", "runs/small/best.safetensors", "-o", "named.safetensors", "--names", "timm")
        content = (self.folder / "named.safetensors").read_bytes()
        begin = 8 + struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:begin])
        header["__metadata__"] = {"format": "pt"}
        text = json.dumps(header).encode()
        (timm / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content[begin:])
        (timm / "config.json").write_text(json.dumps({
            "architecture": "tf_mobilenetv3_small_100", "num_classes": 2, "label_names": ["ant", "bee"],
            "pretrained_cfg": {"tag": "in1k", "input_size": [3, 32, 32], "crop_pct": 1.0, "mean": [0.5, 0.5, 0.5],
                               "std": [0.5, 0.5, 0.5], "interpolation": "bilinear", "classifier": "classifier"}}))
        answers, said = self.classify("timm")
        self.assertRegex(answers, "(ant|bee) ")
        self.assertIn("timm/model.safetensors: recognised by its config.json as tf_mobilenetv3_small_100 of 2 classes",
                      said)
        self.assertIn("the defaults of timm are assumed: crop_mode=center; --input decides otherwise", said)
        _, said = self.classify("timm", "--model", "mobilenetv3_small_100")
        self.assertIn("recognised by --model as mobilenetv3_small_100", said)
        (timm / "model.safetensors").rename(timm / "w.safetensors")
        _, said = self.classify("timm/w.safetensors")
        self.assertIn("timm/config.json beside it is not read, as it is beside model.safetensors", said)

    @unittest.skipUnless(LITE0.exists(), f"without {LITE0}")
    def test_efficientnet_lite0_is_fine_tuned_and_exported(self):
        answers, said = self.classify(LITE0, "--top", "1")
        self.assertIn("recognised by its file name as efficientnet-lite0 of 1000 classes, named as ImageNet's; images "
                      "as the preset efficientnet-lite0 expects them", said)
        self.whisker("export", LITE0, "-o", "lite.onnx", "--preprocess")
        self.whisker("train", "--data", "train", "--weights", LITE0, "name=lite", "train.epochs=1", "unfreeze_at=0",
                     "data.image_size=32", "data.resize_short=36", "device=cpu", "data.workers=1")
        self.assertRegex(self.classify("runs/lite/best.safetensors")[0], "c[01] ")


if __name__ == "__main__":
    unittest.main()
