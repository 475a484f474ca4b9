#!/usr/bin/env python3
"""Writes tests/layers/family_logits.json: networks of torchvision and timm, among them those that
share tensors and compute something else. Of each: a hash of its tensors' names and sizes, how its
ImageNet weights expect images, and logits in float64. Weights and images come from a formula that
the C++ test has as well (tests/layers/families_test.cpp); the statistics of batch norms are measured
on the images, as a training step measures them.

`classifiers` are small ones of transformers as save_pretrained() writes them (tests/train/model/hub_folder_test.cpp):
config.json, preprocessor_config.json, names and shapes of the tensors, logits in float64, and pixels of an
image as the processor prepares it. `files` are logits of real weights in float32.

  pip install torch torchvision timm transformers
  python scripts/make_family_logits.py
  python scripts/make_family_logits.py --check  # against the file; 77: skipped
"""
import json
import math
import os
import sys
import tempfile
import warnings
from pathlib import Path

try:
    import timm
    import torch
    import torchvision
    import transformers
    from PIL import Image
    from safetensors.torch import load_file, save_file
    from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
    from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil
    from make_torchvision_fixtures import fnv, formula
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

FILE = Path(__file__).parent.parent / "tests/layers/family_logits.json"
CLASSES, SIDE, IMAGES = 5, 64, 3
# Names of presets; TIMMS_NAMES has timm's where it is another one.
TORCHVISION = """resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d
    wide_resnet50_2 wide_resnet101_2 vgg16 squeezenet1_1 densenet121 densenet161 densenet169 densenet201
    mobilenet_v2 mobilenet_v3_large mobilenet_v3_small efficientnet_b0 efficientnet_b1 efficientnet_b2
    efficientnet_b3 efficientnet_b4 efficientnet_v2_s regnet_y_400mf regnet_y_800mf regnet_y_1_6gf
    regnet_y_3_2gf convnext_tiny convnext_small convnext_base vit_b_16 vit_b_32""".split()
TIMM = """timm/resnet18 timm/resnet34 timm/resnet50 timm/resnet101 timm/resnet152 timm/resnext50_32x4d
    timm/wide_resnet50_2 resnet26 timm/densenet121 timm/densenet161 timm/densenet169 timm/densenet201
    mobilenetv2_100 mobilenetv2_050 mobilenetv2_140 mobilenetv3_large_100 mobilenetv3_small_100
    tf_mobilenetv3_large_100 tf_mobilenetv3_small_100 timm/efficientnet_b0 timm/efficientnet_b1
    timm/efficientnet_b2 timm/efficientnet_b3 timm/efficientnet_b4 efficientnet_lite0 tf_efficientnet_lite0
    tf_efficientnet_b0 tf_efficientnet_b1
    tf_efficientnet_b2 tf_efficientnet_b3 tf_efficientnet_b4 efficientnetv2_s tf_efficientnetv2_s
    regnety_004 regnety_008 regnety_016 regnety_032 timm/convnext_tiny timm/convnext_small
    timm/convnext_base convnext_atto convnext_femto convnext_pico convnext_nano vit_tiny_patch16_224
    vit_s_16 vit_small_patch32_224 vit_base_patch16_224 vit_base_patch32_224 vit_base_patch16_384
    deit_tiny_patch16_224 deit_small_patch16_224 deit_base_patch16_224 deit_base_patch16_384
    vit_s_16_384""".split()
TIMMS_NAMES = {"vit_s_16": "vit_small_patch16_224", "vit_s_16_384": "vit_small_patch16_384"}


def network(library, name, side=None):
    """For images of side x side; None: of the network's own size."""
    if library == "torchvision":
        sized = {"image_size": side} if side and name.startswith("vit") else {}
        return torchvision.models.get_model(name, num_classes=CLASSES, **sized)
    name = TIMMS_NAMES.get(name, name.removeprefix("timm/"))
    sized = {"img_size": side} if side and ("vit" in name or "deit" in name) else {}
    return timm.create_model(name, num_classes=CLASSES, **sized)


def filled(net, gain):
    """Norms around one; a quarter of that at the ends of residual branches, as deep networks would
    multiply rounding errors. What a norm follows (it has no bias) is so small that an epsilon counts."""
    state = net.state_dict()
    for name, value in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        draw = formula(name, value.numel())
        if name.endswith(("running_mean", "running_var")):
            draw *= 0
        elif "token" in name or "pos_embed" in name:
            draw *= 12 ** 0.5
        elif value.numel() == value.shape[0]:
            draw += not name.endswith("bias")
            draw *= 0.25 if name.endswith(("bn3.weight", "conv3.bn.weight")) else 1
        else:
            small = name.endswith(".weight") and name.removesuffix("weight") + "bias" not in state
            draw *= (12 * value.shape[0] / value.numel()) ** 0.5 * (0.2 if small else gain)
        state[name] = draw.reshape(value.shape)
    net.load_state_dict(state)
    return net.double()


def names_hash(net):
    """Of the names and numbers of elements: a convolution 1x1 and a dense layer are alike."""
    lines = sorted(f"{name} {value.numel()}" for name, value in net.state_dict().items()
                   if not name.endswith("num_batches_tracked"))
    return f"{fnv(chr(10).join(lines)):016x}"


def preprocessing(library, name, net):
    """image_size, resize_short, interpolation, mean and std of the first channel."""
    if library == "torchvision":
        facts = torchvision.models.get_model_weights(name)["IMAGENET1K_V1"].transforms()
        return [facts.crop_size[0], facts.resize_size[0], facts.interpolation.value, facts.mean[0], facts.std[0]]
    facts = timm.data.resolve_model_data_config(net)
    size = facts["input_size"][-1]
    return [size, math.floor(size / facts["crop_pct"]), facts["interpolation"], facts["mean"][0], facts["std"][0]]


def logits(net, gain):
    net = filled(net, gain).eval()
    images = formula("images", IMAGES * 3 * SIDE * SIDE).reshape(IMAGES, 3, SIDE, SIDE).double() * 4
    norms = [module for module in net.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    with torch.no_grad():
        for norm in norms:
            norm.train().momentum = 1
        if norms:
            net(images)
        net.eval()
        return net(images[:2]).flatten().tolist()


def rows():
    for library, names in (("torchvision", TORCHVISION), ("timm", TIMM)):
        for name in names:
            whole = network(library, name)
            gain = 1.4 if name in ("vgg16", "squeezenet1_1") else 1
            values = logits(network(library, name, SIDE), gain)
            row = {"name": name, "library": library, "names": names_hash(whole),
                   "preprocess": preprocessing(library, name, whole), "gain": gain,
                   "parameters": sum(p.numel() for p in whole.parameters()),
                   "logits": [float(f"{x:.7g}") for x in values]}
            print(f"{name}: {max(map(abs, values)):.3g}, images differ by "
                  f"{max(abs(a - b) for a, b in zip(values, values[CLASSES:])):.3g}", flush=True)
            yield row


SMALL_VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48,
             "image_size": 32, "patch_size": 8, "layer_norm_eps": 1e-3}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def classifiers():
    """Name, class, configuration, image processor."""
    squared = ViTImageProcessorPil(size={"height": 32, "width": 32})
    deit = DeiTImageProcessorPil(size={"height": 40, "width": 40}, crop_size={"height": 32, "width": 32})
    cut = ConvNextImageProcessorPil(size={"shortest_edge": 32}, image_mean=MEAN, image_std=STD, resample=2)
    large = ConvNextImageProcessorPil(size={"shortest_edge": 384}, do_rescale=False, do_normalize=False)
    yield "vit", transformers.ViTForImageClassification, transformers.ViTConfig(**SMALL_VIT), squared
    yield ("vit_without_qkv_bias", transformers.ViTForImageClassification,
           transformers.ViTConfig(**SMALL_VIT, qkv_bias=False), squared)
    yield "deit", transformers.DeiTForImageClassification, transformers.DeiTConfig(**SMALL_VIT), deit
    yield ("deit_with_teacher", transformers.DeiTForImageClassificationWithTeacher,
           transformers.DeiTConfig(**SMALL_VIT), deit)
    yield ("convnext", transformers.ConvNextForImageClassification, transformers.ConvNextConfig(
        depths=[1, 1, 2, 1], hidden_sizes=[8, 16, 24, 40], image_size=32, layer_norm_eps=1e-2), cut)
    yield ("resnet_bottleneck", transformers.ResNetForImageClassification, transformers.ResNetConfig(
        embedding_size=8, depths=[1, 2, 1, 1], hidden_sizes=[16, 24, 32, 48]), cut)
    yield ("resnet_basic", transformers.ResNetForImageClassification, transformers.ResNetConfig(
        embedding_size=8, depths=[2, 1, 2, 1], hidden_sizes=[8, 12, 16, 24], layer_type="basic"), large)


def fill_small(state):
    """By the names in the file, which are not those of the modules."""
    for name, value in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        draw = formula(name, value.numel())
        if name.endswith("running_mean"):
            draw *= 0.2
        elif name.endswith("running_var"):
            draw = 1 + draw / 2
        elif value.dim() == 1:
            draw += not name.endswith("bias")
        elif value.dim() == 3:
            draw *= 12 ** 0.5
        else:
            draw *= (24 * value.shape[0] / value.numel()) ** 0.5
        state[name] = draw.reshape(value.shape)
    return state


def photograph():
    """60 x 44 pixels."""
    return Image.fromarray((formula("photograph", 44 * 60 * 3).add(0.5) * 256).byte().reshape(44, 60, 3).numpy())


def transformers_rows():
    images = formula("images", 2 * 3 * 32 * 32).reshape(2, 3, 32, 32).double() * 4
    for name, kind, config, processor in classifiers():
        config.num_labels = CLASSES
        config.id2label = {i: f"kind {i}" for i in range(CLASSES)}
        config.label2id = {label: i for i, label in config.id2label.items()}
        with tempfile.TemporaryDirectory() as folder:
            kind(config).save_pretrained(folder)
            processor.save_pretrained(folder)
            read = {path.stem: json.loads(path.read_text()) for path in Path(folder).glob("*.json")}
            state = fill_small(load_file(f"{folder}/model.safetensors"))
            save_file(state, f"{folder}/model.safetensors", {"format": "pt"})
            net = kind.from_pretrained(folder).eval()
        tensors = {key: list(value.shape) for key, value in state.items()}
        with torch.no_grad():
            values = net.double()(images).logits.flatten().tolist()
        pixels = torch.as_tensor(processor(photograph(), return_tensors="pt")["pixel_values"])[0]
        print(f"{name}: {max(map(abs, values)):.3g}", flush=True)
        yield {"name": name, "config": read["config"], "processor": read["preprocessor_config"],
               "tensors": tensors, "logits": [float(f"{x:.7g}") for x in values],
               "pixels": [float(f"{x:.6g}") for x in pixels.double().flatten()[::pixels.numel() // 40]]}


def lite_names(net):
    """The state of timm's EfficientNet-Lite under the names of EfficientNet-PyTorch: theirs by timm's."""
    kinds = {"conv_pwl": "_project_conv", "conv_dw": "_depthwise_conv", "conv_stem": "_conv_stem", "bn3": "_bn2",
             "conv_head": "_conv_head", "classifier": "_fc"}
    names, block, last = {}, -1, None
    for name in net.state_dict():
        *stage, part, what = name.split(".")
        if stage:
            block, last = block + (stage != last), stage
            first = stage[1:] == ["0", "0"]
            part = {"conv_pw": "_project_conv" if first else "_expand_conv", "bn1": "_bn1" if first else "_bn0",
                    "bn2": "_bn2" if first else "_bn1"}.get(part) or kinds[part]
            names[name] = f"_blocks.{block}.{part}.{what}"
        else:
            part = {"bn1": "_bn0", "bn2": "_bn1"}.get(part) or kinds[part]
            names[name] = f"{part}.{what}"
    return names


def file_rows():
    """Real weights, where they are at hand: every 25th logit of two images."""
    folder = Path(os.environ.get("WHISKER_DATA", Path(__file__).parents[2] / "shared/data")) / "weights"
    lite = timm.create_model("tf_efficientnet_lite0")
    nets = [("mobilenet_v2-b0353104.pth", torchvision.models.mobilenet_v2(), None),
            ("efficientnet-lite0-57934424.pth", lite, lite_names(lite))]
    images = formula("images", 2 * 3 * 224 * 224).reshape(2, 3, 224, 224) * 4
    for name, net, names in nets:
        state = torch.load(folder / name)
        net.load_state_dict({own: state[theirs] for own, theirs in names.items()} if names else state)
        with torch.no_grad():
            values = net.eval()(images).flatten()
        print(f"{name}: {values.abs().max():.3g}", flush=True)
        yield {"file": name, "logits": [float(f"{x:.7g}") for x in values[::25].tolist()]}


def same(got, want, tolerance):
    got, want = dict(got), dict(want)
    for key in ("logits", "pixels"):
        errors = [abs(a - b) for a, b in zip(got.pop(key, []), want.pop(key, []), strict=True)]
        assert max(errors, default=0) < tolerance, (key, got, errors)
    assert got == want, (got, want)


def main():
    warnings.filterwarnings("ignore")
    if "--check" in sys.argv:
        stored = json.loads(FILE.read_text())
        for key, made, tolerance in (("networks", rows, 1e-6), ("classifiers", transformers_rows, 1e-6),
                                     ("files", file_rows, 1e-4)):
            for got, want in zip(made(), stored[key], strict=True):
                same(got, want, tolerance)
        return

    def lines(rows):  # one network per line
        return "[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]"
    versions = "".join(f' "{package.__name__}": "{package.__version__}",\n'
                       for package in (torch, torchvision, timm, transformers))
    FILE.write_text(f'{{\n{versions} "networks": {lines(rows())},\n "classifiers": {lines(transformers_rows())},\n'
                    f' "files": {lines(file_rows())}\n}}\n')


if __name__ == "__main__":
    main()
