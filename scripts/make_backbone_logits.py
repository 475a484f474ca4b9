#!/usr/bin/env python3
"""Writes tests/layers/backbone_logits.json: the logits of torchvision's and timm's networks, in
float64 on the CPU, for photographs and for weights that the C++ tests make again from the same
formula, and a hash of each network's parameter names and shapes; and position embeddings that timm
resizes to other images.

  pip install torch torchvision timm pillow
  python scripts/make_backbone_logits.py ../shared/data
  python scripts/make_backbone_logits.py ../shared/data --check  # against the file; 77: skipped
"""
import json
import sys
from pathlib import Path

try:
    import timm
    import torch
    import torchvision
    from PIL import Image
    from make_torchvision_fixtures import fnv, formula
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

CLASSES = 3
# Of matrices and filters, where the photographs would otherwise be lost behind the biases.
GAINS = {"mobilenet_v2": 1.4, "mobilenet_v3_small": 1.3, "mobilenet_v3_large": 1.3,
         "densenet121": 1.4, "efficientnet_b0": 1.3, "efficientnet_b3": 1.2,
         "efficientnet_v2_s": 1.1, "regnet_y_400mf": 1.2}
FILE = Path(__file__).parent.parent / "tests/layers/backbone_logits.json"


def photographs(data, side, count):
    """(N, 3, side, side): centres of the first photographs of both classes that are large enough."""
    small = ("hymenoptera/val/ants", "hymenoptera/val/bees")
    images = []
    for folder in small if side < 100 else ("cats_dogs_original/cat", "cats_dogs_original/dog"):
        files = sorted((data / folder).glob("*.jpg"))
        large = [path for path in files if min(Image.open(path).size) >= side]
        for path in large[:count // 2]:
            image = Image.open(path).convert("RGB")
            left, top = (image.width - side) // 2, (image.height - side) // 2
            crop = image.crop((left, top, left + side, top + side))
            pixels = torch.frombuffer(bytearray(crop.tobytes()), dtype=torch.uint8)
            images.append(pixels.reshape(side, side, 3).permute(2, 0, 1).double())
    return torch.stack(images)


def weights(name, shape, gain):
    """Matrices and filters multiply magnitudes by `gain`; tokens, positions and layer scales have deviation 1."""
    values = formula(name, shape.numel()).reshape(shape)
    if len(shape) == 3:
        return values * 12 ** 0.5
    if len(shape) > 1:
        return values * ((12 / shape[1:].numel()) ** 0.5 * gain)
    return values + (name.endswith("weight") or name.endswith("running_var"))


def filled(net, name=""):
    gain = GAINS.get(name, 1)
    net.load_state_dict({name: value if name.endswith("num_batches_tracked")
                         else weights(name, value.shape, gain)
                         for name, value in net.state_dict().items()})
    return net.double().eval()


def names_hash(net):
    lines = sorted(" ".join([name, *map(str, value.shape)]) if value.dim() else name + " "
                   for name, value in net.state_dict().items())
    return f"{fnv(chr(10).join(lines)):016x}"


def resized_positions(positions, side):
    """(1, 1 + 14 x 14, C) to (1, 1 + side x side, C), as timm resizes them."""
    grid = positions[:, 1:].reshape(1, 14, 14, -1).permute(0, 3, 1, 2)
    grid = torch.nn.functional.interpolate(grid, (side, side), mode="bicubic", antialias=True)
    return torch.cat([positions[:, :1], grid.permute(0, 2, 3, 1).reshape(1, side * side, -1)], 1)


def vit_b_16(side):
    net = filled(torchvision.models.vit_b_16(num_classes=CLASSES))
    net.names = names_hash(net)
    if side != 224:
        positions = resized_positions(net.encoder.pos_embedding.data, side // 16)
        net.encoder.pos_embedding = torch.nn.Parameter(positions)
        net.image_size, net.seq_length = side, positions.shape[1]
    return net


def positions():
    """Embeddings of a token and a grid of rows x columns, one channel, made those of another grid."""
    for old, new in (((14, 14), (24, 24)), ((14, 14), (9, 9)), ((4, 6), (7, 5))):
        values = formula("positions", 1 + old[0] * old[1]).reshape(1, -1, 1)
        resized = timm.layers.resample_abs_pos_embed(values, list(new), list(old))
        yield {"grid": old, "image": new, "values": [float(f"{x:.7g}") for x in resized.flatten()]}


def efficientnet(width, depth):
    conf, last = torchvision.models.efficientnet._efficientnet_conf(
        "efficientnet_b1", width_mult=width, depth_mult=depth)
    return torchvision.models.efficientnet.EfficientNet(
        conf, 0.2, num_classes=CLASSES, last_channel=last)


def networks():
    """(name, side, photographs, network)"""
    for name in ("resnet34", "resnet101", "mobilenet_v2", "mobilenet_v3_small",
                 "mobilenet_v3_large", "densenet121", "efficientnet_b0", "efficientnet_v2_s",
                 "regnet_y_400mf", "convnext_tiny"):
        yield name, 64, 20, filled(
            getattr(torchvision.models, name)(num_classes=CLASSES), name)
    yield "efficientnet_b3", 64, 2, filled(efficientnet(1.2, 1.4), "efficientnet_b3")
    yield "vit_b_16", 64, 20, vit_b_16(64)
    yield "vit_b_16", 224, 2, vit_b_16(224)
    for side, count in ((64, 20), (224, 2)):
        yield "vit_s_16", side, count, filled(timm.create_model(
            "vit_small_patch16_224", num_classes=CLASSES, dynamic_img_size=True))
    yield "vit_b_16_384", 384, 2, filled(torchvision.models.vit_b_16(num_classes=CLASSES, image_size=384))
    yield "vit_s_16_384", 384, 2, filled(timm.create_model("vit_small_patch16_384", num_classes=CLASSES))


def main():
    data, check = Path(sys.argv[1]), "--check" in sys.argv
    if check and not (data / "hymenoptera").exists():
        print(f"skipped: {data} is missing")
        sys.exit(77)
    rows = []
    with torch.no_grad():
        for name, side, count, net in networks():
            images = photographs(data, side, count)
            logits = net(images / 64 - 2)
            rows.append({"name": name, "side": side, "pixels": int(images.sum()),
                         "gain": GAINS.get(name, 1),
                         "names": getattr(net, "names", None) or names_hash(net),
                         "logits": [float(f"{x:.7g}") for x in logits.flatten()]})
            spread = float(logits.std(0).mean())
            print(f"{name} at {side}: up to {float(logits.abs().max()):.3g}, "
                  f"deviation between photographs {spread:.3g}", flush=True)
    if check:
        stored = json.loads(FILE.read_text())
        for got, want in zip(positions(), stored["positions"], strict=True):
            errors = [abs(a - b) for a, b in zip(got["values"], want["values"], strict=True)]
            assert max(errors) < 1e-6, (want["grid"], want["image"])
        for got, want in zip(rows, stored["networks"], strict=True):
            largest = max(1, *map(abs, want["logits"]))
            errors = [abs(a - b) for a, b in zip(got["logits"], want["logits"], strict=True)]
            assert got["names"] == want["names"] and max(errors) < 1e-4 * largest, want["name"]
        return
    # One network or grid per line.
    lines, grids = (",\n".join("  " + json.dumps(row) for row in part) for part in (rows, positions()))
    FILE.write_text(f'{{\n "torch": "{torch.__version__}",\n "torchvision": '
                    f'"{torchvision.__version__}",\n "timm": "{timm.__version__}",\n'
                    f' "positions": [\n{grids}\n ],\n "networks": [\n{lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
