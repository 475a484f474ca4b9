#!/usr/bin/env python3
"""Writes configs/presets/pretrained.yaml: of each preset the weights file that torchvision or timm hand out, from their
packages' metadata, timm's results table and files at hand. A fact that none of them states is left out.

  pip install torch torchvision timm
  git clone https://github.com/huggingface/pytorch-image-models
  python scripts/make_pretrained_table.py pytorch-image-models/results/results-imagenet.csv [FOLDER_OF_WEIGHTS_FILES]

Of several sets of weights the library's first is taken whose images are those of the preset's `data`.
"""
import csv
import hashlib
import math
import re
import sys
from pathlib import Path

import timm
import torchvision
import yaml
from timm.models._registry import _model_default_cfgs
from torchvision.transforms import InterpolationMode

PRESETS = Path(__file__).parent.parent / "configs/presets"
TABLE = PRESETS / "pretrained.yaml"
HEAD = """\
# Weights files of presets, for `whisker models` and scripts/fetch_weights.sh. Made by scripts/make_pretrained_table.py
# from torchvision {torchvision} and timm {timm}; what they do not state is left out.
#   top1    percent of ImageNet's validation images, as torchvision's metadata or timm's results table state it for
#           this image size
#   mib     size of the file
#   sha256  all 64 digits where the file was at hand, else the 8 in the name of the file at `url`, which torch.hub
#           compares as well; without it the server that holds the file states its SHA-256
"""
# Licences that torchvision states otherwise than by a name, and timm's names in SPDX's spelling. Weights of torchvision
# without a licence of their own come under the package's.
TORCHVISIONS = "BSD-3-Clause"
LICENCES = {"https://github.com/facebookresearch/SWAG/blob/main/LICENSE": "CC-BY-NC-4.0", "apache-2.0": "Apache-2.0",
            "bsd-3-clause": "BSD-3-Clause", "mit": "MIT", "cc-by-nc-4.0": "CC-BY-NC-4.0"}
FIRST_DATA = {"in21k": "ImageNet-21k", "in22k": "ImageNet-22k", "in12k": "ImageNet-12k", "jft": "JFT-300M",
              "swag": "SWAG"}


def all_presets():
    """Name: (library, data, name in the library), in the order of the program's own list."""
    sections = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(PRESETS.glob("*.yaml"))
                if path.stem not in ("variants", "weights_tags", "pretrained")}
    variants = yaml.safe_load((PRESETS / "variants.yaml").read_text())
    aliases = {preset: name for name, preset in variants.items() if isinstance(preset, str)}
    sections |= {name: section for name, section in variants.items() if isinstance(section, dict)}
    found = {}
    for name, section in sections.items():
        chain = [section]
        while "preset" in chain[-1]:
            chain.append(sections[chain[-1]["preset"]])
        data = {}
        for one in reversed(chain):
            data |= one.get("data", {})
        library = next((one["library"] for one in chain if "library" in one), "torchvision")
        if data:
            own = aliases.get(name, name) if library == "timm" else name.removesuffix("_384")
            found[name] = (library, data, own.removeprefix("timm/"))
    return found


def trained_on(tag):
    first = [data for word, data in FIRST_DATA.items() if word in tag.lower()]
    return ", ".join([*first, "ImageNet-1k"])


def images(size, resize, interpolation, mean, std):
    return {"image_size": size, "resize_short": resize, "interpolation": interpolation, "mean": list(mean),
            "std": list(std)}


def wanted_images(data):
    return images(data["image_size"], data.get("resize_short", data["image_size"]),
                  data.get("interpolation", "bilinear"), data["mean"], data["std"])


def torchvision_weights(name, data):
    for weights in torchvision.models.get_model_weights(name):
        how = weights.transforms()
        filters = {InterpolationMode.BILINEAR: "bilinear", InterpolationMode.BICUBIC: "bicubic"}
        if images(how.crop_size[0], how.resize_size[0], filters[how.interpolation], how.mean, how.std) != data:
            continue
        meta = weights.meta
        return {"source": "torchvision", "tag": weights.name, "trained_on": trained_on(weights.name),
                "top1": meta.get("_metrics", {}).get("ImageNet-1K", {}).get("acc@1"),
                "licence": LICENCES[meta["license"]] if "license" in meta else TORCHVISIONS,
                "mib": meta.get("_file_size"), "file": weights.url.rpartition("/")[2], "url": weights.url}
    return None


def timm_weights(name, data, results):
    cfgs = _model_default_cfgs.get(name)
    for tag in cfgs.tags if cfgs else ():
        cfg = cfgs.cfgs[tag]
        size = cfg.input_size[1]
        if not tag or not (cfg.url or cfg.hf_hub_id) or cfg.num_classes != 1000 or images(
                size, math.floor(size / cfg.crop_pct), cfg.interpolation, cfg.mean, cfg.std) != data:
            continue
        url = cfg.url or ""
        if not re.search(r"-[0-9a-f]{8}\.pth$", url):
            owner = cfg.hf_hub_id
            model = f"{owner}{name}.{tag}" if owner.endswith("/") else owner
            url = f"https://huggingface.co/{model}/resolve/main/model.safetensors"
        return {"source": "timm", "tag": tag, "trained_on": trained_on(tag), "top1": results.get((f"{name}.{tag}", size)),
                "licence": LICENCES[cfg.license] if cfg.license else None,
                "file": f"timm-{name}.{tag}{Path(url).suffix}", "url": url}
    return None


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with open(sys.argv[1], newline="") as file:
        results = {(row["model"], int(row["img_size"])): float(row["top1"]) for row in csv.DictReader(file)}
    at_hand = {path.name: path for path in Path(sys.argv[2]).iterdir()} if len(sys.argv) > 2 else {}
    text = HEAD.format(torchvision=torchvision.__version__.partition("+")[0], timm=timm.__version__)
    for preset, (library, data, name) in all_presets().items():
        wanted = wanted_images(data)
        row = torchvision_weights(name, wanted) if library == "torchvision" else timm_weights(name, wanted, results)
        if not row:
            print(f"no weights of {library} for {preset}", file=sys.stderr)
            continue
        digits = re.search(r"-([0-9a-f]{8})\.pth$", row["url"])
        row["sha256"] = digits and digits[1]
        if path := at_hand.get(row["url"].rpartition("/")[2]):
            row["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            assert row["sha256"].startswith(digits[1]), path
            row["mib"] = round(path.stat().st_size / 2**20, 3)
        text += f"{preset}:\n"
        text += "".join(f"  {key}: {value}\n" for key, value in row.items() if value is not None)
    TABLE.write_text(text)


if __name__ == "__main__":
    main()
