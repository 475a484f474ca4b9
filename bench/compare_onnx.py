#!/usr/bin/env python3
"""Exported presets in ONNX Runtime beside `whisker classify`, image by image.

usage: compare_onnx.py WHISKER IMAGES [--presets NAME ... | --weights FILE ...] [--count N] [--classes 100]
WHISKER is the program, IMAGES a folder of JPEG files (N of them, all by default). Run it with a Python that has torch,
torchvision, timm, onnxruntime and Pillow. The weights are random: torchvision's (timm's for vit_s_16 and
vit_s_16_384), with batch norms that have seen the images and a last layer that tells them apart, as a .pth file. One
JSON line per preset: images whose most probable class is the same, and the largest differences of probabilities; Pillow prepares the images for the
network alone (largest_difference), or the graph does (with_preprocess, where pixels may differ by a level). Weights of
one's own, of RGB images whose short side is resized and then cropped, take the place of presets.
Exit code 1 when an image's most probable class differs, prepared by Pillow.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnxruntime
import torch
import torchvision
from PIL import Image, ImageOps

from machine import machine

PRESETS = ["convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "mobilenet_v2", "mobilenet_v3_large",
           "mobilenet_v3_small", "regnet_y_400mf", "resnet101", "resnet18", "resnet34", "resnet50", "squeezenet1_1",
           "vgg16", "vit_b_16", "vit_b_16_384", "vit_s_16", "vit_s_16_384"]
CALIBRATION = 16  # images that batch norms see
DEVIATION = 3  # of the logits of an image


def network(name, classes):
    if not name.startswith("vit_s_16"):
        size = {"image_size": 384} if name.endswith("_384") else {}
        return torchvision.models.get_model(name.removesuffix("_384"), weights=None, num_classes=classes, **size)
    import timm
    return timm.create_model("vit_small_patch16_384" if name.endswith("_384") else "vit_small_patch16_224",
                             num_classes=classes)


def calibrate(net, inputs):
    """Statistics of batch norms become those of the inputs; logits get a deviation."""
    for layer in net.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None  # the mean over all batches
            layer.train()
    with torch.no_grad():
        net(inputs)
        net.eval()
        head = [layer for layer in net.modules() if isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d))][-1]
        head.bias.zero_()
        head.weight.normal_()  # torchvision's ViT begins with zeros
        logits = net(inputs)
        # What is common to all images would make one class of them.
        head.weight *= DEVIATION / (logits - logits.mean(0)).std()
        head.bias -= net(inputs).mean(0)


def prepared(image, how):
    """(3, H, W), as docs/reference/formats.md describes the metadata."""
    short, (width, height) = how["resize_short"], image.size
    size = (short, short * height // width) if width < height else (short * width // height, short)
    filters = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
    image = image.resize(size, filters[how["interpolation"]])
    crop_h, crop_w = how["crop"] if isinstance(how["crop"], list) else (how["crop"], how["crop"])
    left, top = round((image.width - crop_w) / 2), round((image.height - crop_h) / 2)
    pixels = numpy.asarray(image.crop((left, top, left + crop_w, top + crop_h)), numpy.float32) * how["scale"]
    return ((pixels - how["mean"]) / how["std"]).astype(numpy.float32).transpose(2, 0, 1)


class Comparison:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        paths = sorted(options.images.resolve().rglob("*.jpg"))
        # Some of every folder.
        self.paths = paths[::max(1, len(paths) // options.count)][:options.count] if options.count else paths
        if not self.paths:
            sys.exit(f"{options.images}: no .jpg files")
        self.images = [ImageOps.exif_transpose(Image.open(path)).convert("RGB") for path in self.paths]

    def whisker(self, *arguments):
        done = subprocess.run([self.options.program, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def session(self, weights, *how):
        path = self.scratch / "model.onnx"
        self.whisker("export", weights, "-o", path, "--probabilities", *how)
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def inputs(self, weights):
        how = json.loads(self.session(weights).get_modelmeta().custom_metadata_map["preprocess"])
        if "resize_short" not in how or how.get("channels", "RGB") != "RGB":
            sys.exit(f"{weights}: expected preprocessing of RGB images with resize_short, got {json.dumps(how)}")
        return numpy.stack([prepared(image, how) for image in self.images])

    def compare_preset(self, name):
        weights = self.scratch / f"{name}.pth"
        net = network(name, self.options.classes)
        torch.save(net.state_dict(), weights)
        inputs = self.inputs(weights)
        calibrate(net, torch.from_numpy(inputs[:: max(1, len(inputs) // CALIBRATION)]))
        torch.save(net.state_dict(), weights)
        return self.compare(name, weights, inputs)

    def compare(self, name, weights, inputs):
        alone = self.session(weights)
        classes = json.loads(alone.get_modelmeta().custom_metadata_map["classes"])
        if len(set(classes)) != len(classes):
            sys.exit(f"{weights}: two classes have one name")
        rows = [json.loads(line)["predictions"] for line in
                self.whisker("classify", weights, *self.paths, "--jsonl", "--device", "cpu",
                             "--top", str(len(classes))).splitlines()]
        ours = numpy.array([[value for _, value in sorted((classes.index(one["class"]), one["probability"]) for one in row)]
                            for row in rows])
        theirs = numpy.concatenate([alone.run(None, {"images": one[None]})[0] for one in inputs])
        whole = self.session(weights, "--preprocess")
        pixels = numpy.concatenate([whole.run(None, {"pixels": numpy.asarray(image)[None]})[0] for image in self.images])
        same = int((ours.argmax(1) == theirs.argmax(1)).sum())
        difference = lambda other: float(f"{abs(ours - other).max():.3g}")
        print(json.dumps({"what": "ONNX Runtime beside classify", **machine("cpu"), "id": name, "images": len(ours),
                          "classes_predicted": len(set(ours.argmax(1).tolist())),
                          "mean_top_probability": round(float(ours.max(1).mean()), 3), "top1_equal": same,
                          "largest_difference": difference(theirs), "with_preprocess": difference(pixels),
                          "top1_equal_with_preprocess": int((ours.argmax(1) == pixels.argmax(1)).sum()),
                          "onnxruntime": onnxruntime.__version__, "torch": torch.__version__}), flush=True)
        return same == len(ours)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("images", type=pathlib.Path)
    networks = parser.add_mutually_exclusive_group()
    networks.add_argument("--presets", nargs="+", default=PRESETS, choices=PRESETS, metavar="NAME")
    networks.add_argument("--weights", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--count", type=int, default=0, help="images, taken from all folders; 0: all")
    parser.add_argument("--classes", type=int, default=100)
    options = parser.parse_args()
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as scratch:
        comparison = Comparison(options, pathlib.Path(scratch))
        if options.weights:
            equal = [comparison.compare(path.stem, path, comparison.inputs(path)) for path in options.weights]
        else:
            equal = [comparison.compare_preset(name) for name in options.presets]
    sys.exit(0 if all(equal) else 1)


if __name__ == "__main__":
    main()
