#!/usr/bin/env python3
"""Writes tests/layers/family_logits.json: networks of torchvision and timm, among them those that
share tensors and compute something else. Of each: a hash of its tensors' names and sizes, how its
ImageNet weights expect images, and logits in float64. Weights and images come from a formula that
the C++ test has as well (tests/layers/families_test.cpp); the statistics of batch norms are measured
on the images, as a training step measures them.

  pip install torch torchvision timm
  python scripts/make_family_logits.py
  python scripts/make_family_logits.py --check  # against the file; 77: skipped
"""
import json
import math
import sys
import warnings
from pathlib import Path

try:
    import timm
    import torch
    import torchvision
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
    timm/efficientnet_b2 timm/efficientnet_b3 timm/efficientnet_b4 tf_efficientnet_b0 tf_efficientnet_b1
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


def main():
    warnings.filterwarnings("ignore")
    if "--check" in sys.argv:
        for got, want in zip(rows(), json.loads(FILE.read_text())["networks"], strict=True):
            errors = [abs(a - b) for a, b in zip(got.pop("logits"), want.pop("logits"), strict=True)]
            assert got == want and max(errors) < 1e-6, (got, want, errors)
        return
    lines = ",\n".join("  " + json.dumps(row) for row in rows())  # one network per line
    FILE.write_text(f'{{\n "torch": "{torch.__version__}",\n "torchvision": '
                    f'"{torchvision.__version__}",\n "timm": "{timm.__version__}",\n'
                    f' "networks": [\n{lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
