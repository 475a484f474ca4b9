#!/usr/bin/env python3
"""Writes configs/presets/weights_tags.yaml: how the weights of timm's and torchvision's networks expect
images, where that is not as Whisker's preset of the network says. timm's weights are called by a tag
(resnet50.a3_in1k) and, in older files, by a hash; torchvision's by a hash (resnet50-11ad3fa6).
Behind them stand timm's older names of weights
(tf_efficientnet_b0_ap), which its files and checkpoints of before tags have. Writes tests/layers/weights_tags.json, too: the same as the libraries say it, whatever the presets.

  pip install torch torchvision timm
  python scripts/make_weights_tags.py
  python scripts/make_weights_tags.py --check  # against the files; 77: skipped
"""
import json
import math
import re
import sys
import textwrap
from pathlib import Path

try:
    import timm
    import torchvision
    import yaml
    from timm.models import _registry as registry
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PRESETS = Path(__file__).parent.parent / "configs/presets"
FILE = PRESETS / "weights_tags.yaml"
EXPECTED = Path(__file__).parent.parent / "tests/layers/weights_tags.json"
HEAD = """# Weights of timm's and torchvision's networks, by the tag and the hash in their files' names, and what of the
# `data` section is not as the preset of the network has it. Made by scripts/make_weights_tags.py
# from timm {} and torchvision {}.
"""


def read_presets():
    """(sections by preset, preset by alias)."""
    presets, aliases = {}, {}
    for path in sorted(PRESETS.glob("*.yaml")):
        if path.stem not in ("variants", "weights_tags", "pretrained"):
            presets[path.stem] = yaml.safe_load(path.read_text())
    for name, value in yaml.safe_load((PRESETS / "variants.yaml").read_text()).items():
        if isinstance(value, str):
            aliases[name] = value
        elif isinstance(value, dict):
            presets[name] = value
    return presets, aliases


def merged_data(presets, name):
    section = presets[name]
    data = merged_data(presets, section["preset"]) if "preset" in section else {}
    return data | section.get("data", {})


def library_of(presets, name):
    section = presets[name]
    return section.get("library") or (library_of(presets, section["preset"]) if "preset" in section else "torchvision")


def data_section(size, short, interpolation, mean, std, squash=False):
    return {"image_size": size, "resize_short": short, "interpolation": interpolation,
            "mean": list(mean), "std": list(std), "resize_mode": "squash" if squash else "crop"}


def without(wanted, data):
    """`wanted` without what `data`, the preset's, has as well."""
    defaults = {"interpolation": "bilinear", "resize_mode": "crop"}
    return {key: value for key, value in wanted.items() if data.get(key, defaults.get(key)) != value}


def hash_in(url):
    found = re.search(r"-([0-9a-f]{8})\.pth$", url or "")
    return f"-{found[1]}" if found else ""


def timm_rows(presets, aliases):
    """(weights, their preset's data, their own)"""
    names = {name.removeprefix("timm/") for name in presets} | set(aliases)
    for full, config in registry._model_pretrained_cfgs.items():
        network, _, tag = full.partition(".")
        if not tag or network not in names:
            continue
        preset = f"timm/{network}" if f"timm/{network}" in presets else aliases.get(network, network)
        size = config.input_size[-1]
        own_hash = "" if "pytorch.org" in (config.url or "") else hash_in(config.url)
        yield full + own_hash, merged_data(presets, preset), data_section(
            size, math.floor(size / config.crop_pct), config.interpolation, config.mean, config.std,
            config.crop_mode == "squash")


def torchvision_rows(presets, aliases):
    """Of the weights that differ: a file of another hash is as the preset says."""
    by_name = {name: name for name in presets if library_of(presets, name) == "torchvision"}
    by_name |= {alias: preset for alias, preset in aliases.items() if preset in by_name}
    for model in sorted(set(by_name.values()) & set(torchvision.models.list_models())):
        for weights in torchvision.models.get_model_weights(model):
            stem = weights.url.rsplit("/", 1)[1]
            network = max((name for name in by_name if re.match(rf"{re.escape(name)}[-_.]", stem)), key=len)
            facts = weights.transforms()
            wanted = data_section(facts.crop_size[0], facts.resize_size[0], facts.interpolation.value, facts.mean,
                                  facts.std)
            data = merged_data(presets, by_name[network])
            if without(wanted, data):
                yield network + hash_in(stem), data, wanted


def older_names(weights):
    """timm's names of before tags, of these weights. `tv_` is read as torchvision's; some ig_ networks have another one's name."""
    known = {re.sub(r"-[0-9a-f]{8}$", "", name) for name in weights}
    return [f"{old}: {new}" for old, new in registry._deprecated_models.items()
            if new in known and new.partition(".")[0] in old and not old.startswith("tv_")]


def filled(weights):
    return textwrap.fill(", ".join(sorted(weights)), 110, initial_indent="    ", subsequent_indent="    ",
                         break_long_words=False, break_on_hyphens=False)


def made():
    """The contents of both files."""
    presets, aliases = read_presets()
    differences, whole = {}, {}
    for weights, data, wanted in [*timm_rows(presets, aliases), *torchvision_rows(presets, aliases)]:
        differences.setdefault(json.dumps(without(wanted, data)).replace('"', ""), []).append(weights)
        whole.setdefault(json.dumps(wanted), []).append(f'"{weights}"')
    table = HEAD.format(timm.__version__, torchvision.__version__.split("+")[0])
    for data, weights in sorted(differences.items(), key=lambda group: (group[0] != "{}", group[0])):
        table += f"- data: {data}\n  weights: [\n{filled(weights)}]\n"
    timms = [weights for weights, _, _ in timm_rows(presets, aliases)]
    table += f"- older_names: {{\n{filled(older_names(timms))}}}\n"
    expected = ",\n".join(f'{{"data": {data}, "weights": [\n{filled(weights)}]}}'
                          for data, weights in sorted(whole.items()))
    return table, f"[\n{expected}\n]\n"


def main():
    table, expected = made()
    if "--check" in sys.argv:
        for new, path in ((table.split("\n", 3)[3], FILE), (expected, EXPECTED)):
            assert path.read_text().endswith(new), f"{path} differs: run {sys.argv[0]}"
        return
    FILE.write_text(table)
    EXPECTED.write_text(expected)


if __name__ == "__main__":
    main()
