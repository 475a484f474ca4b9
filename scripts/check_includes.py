#!/usr/bin/env python3
"""Checks which folder may include which, which library headers public headers may reach, and that whoever names int64_t
and the like includes <cstdint>, itself or through the project's headers: other standard headers of GCC 13 do not.

    python3 scripts/check_includes.py          exit code 1 and one line per fault
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAY_INCLUDE = {
    "core": {"core"},
    "layers": {"layers", "core"},
    "optim": {"optim", "core"},
    "data": {"data", "core"},
    "train": {"train", "core", "layers", "optim", "data"},
    "apps": {"apps", "train", "core", "layers", "optim", "data"},
}
# Library headers, and the folder or file prefix that alone may see them.
OWNERS = {
    r"(oneapi/)?dnnl.*": "core/cpu/onednn/",
    r"cblas.*|openblas.*": "core/cpu/",
    r"cuda.*|cudnn.*|cublas.*|nccl.*|nvjpeg.*": "core/cuda/",
    r"yaml-cpp/.*": "core/io/yaml",
    r"nlohmann/.*": "core/io/",
    r"utf8proc.h": "core/io/unicode",
    r"jpeglib\.h|jerror\.h": "data/codec/",
    r"stb.*": "data/codec/",
    r"webp/.*": "data/codec/",
    r"CLI/.*": "apps/",
    r"onnx/.*|google/protobuf/.*": "train/onnx/",
}
# Folders whose headers only their own files include, so library headers may stand in them.
INNER = ("core/cpu/", "core/cuda/")
# The order of the folders within each top folder, lowest first: a file may include its own folder and those on lines
# before. Folders on one line do not include each other; (.../x) is a folder within the one before it.
ORDER = {
    "core": """
        core
        core/memory
        core/tensor
        core/image core/io
        core/backend core/draw
        core/autograd
        core/nvidia core/ops core/parameters
        core/communicator
        core/ops/fused core/reference core/trace
        core/cpu/support
        core/cpu/layout
        core/cpu/onednn
        core/cpu/kernels
        core/cpu
        core/registry
        core/cuda/runtime
        core/cuda/device_code
        core/cuda/memory
        core/cuda/cudnn
        core/cuda/autotune core/cuda/image core/cuda/ops
        core/cuda/gemm core/cuda/norm core/cuda/convolution (.../cudnn) (.../few_channels)
        core/cuda/attention core/cuda/fused_conv_norm core/cuda/recurrent (.../cudnn) (.../persistent)
        core/cuda/backend""",
    "layers": """
        layers
        layers/builder
        layers/analysis layers/weights""",
    "optim": "optim",
    "data": """
        data
        data/files
        data/codec
        data/sequences data/synthetic data/transforms
        data/staging
        data/images data/loader
        data/tools""",
    "train": """
        train/checkpoint train/config
        train/device train/model
        train/data train/metrics train/onnx
        train/ranks
        train train/inference
        train/loop
        train/planning train/report""",
    "apps": """
        apps/devices apps/study apps/terminal
        apps/ranks apps/study/grading
        apps/commands
        apps""",
}
# May include anything: memory is a backend's.
EXCEPTIONS = {"core/tensor/storage.cpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def main():
    faults = []
    graph = {}
    for folder, allowed in MAY_INCLUDE.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
                continue
            name = path.relative_to(ROOT).as_posix()
            graph[name] = []
            if name.rpartition("/")[0] not in POSITIONS:
                faults.append(f"{name}: ORDER in scripts/check_includes.py does not name its folder")
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(2)
                first = target.split("/")[0]
                if match.group(1) == '"':
                    graph[name].append(target)
                    if first in MAY_INCLUDE and first not in allowed:
                        faults.append(f"{name}:{number}: {folder}/ must not include {target}")
                    if name not in EXCEPTIONS and not precedes(target, name):
                        faults.append(f"{name}:{number}: must not include {target}, which comes later in ORDER")
                for pattern, owner in OWNERS.items():
                    if re.fullmatch(pattern, target) and first not in MAY_INCLUDE:
                        if not name.startswith(owner):
                            faults.append(f"{name}:{number}: only {owner}* may include <{target}>")
                        elif path.suffix == ".h" and folder != "apps" and not name.startswith(INNER):
                            faults.append(f"{name}:{number}: <{target}> is reachable from a header")
    faults += cycles(graph)
    rest = [path for folder in ("bench", "tests") for path in sorted((ROOT / folder).rglob("*.[hc]*"))]
    faults += without_cstdint([*graph, *(path.relative_to(ROOT).as_posix() for path in rest)])
    print("\n".join(faults))
    return 1 if faults else 0


def full_name(word, owner):
    """The folder that `word` of ORDER names, of which (.../x) is x within `owner`."""
    return word.strip("()").replace("...", owner)


def positions():
    """Of each folder its top folder, its line in ORDER, and the folder it counts as part of."""
    result = {}
    for top, lines in ORDER.items():
        for number, line in enumerate(lines.strip().splitlines()):
            for word in line.split():
                if not word.startswith("("):
                    owner = word
                result[full_name(word, owner)] = (top, number, owner)
    return result


def precedes(target, name):
    """Whether the file `name` may include `target`, by the order within their common top folder."""
    here, there = POSITIONS[name.rpartition("/")[0]], POSITIONS.get(target.rpartition("/")[0])
    if there is None or there[0] != here[0]:
        return True
    return there[1] < here[1] or there[2] == here[2]


def cycles(graph):
    """Headers that include each other, directly or not."""
    faults, done = [], set()

    def visit(name, stack):
        if name in stack:
            faults.append("include cycle: " + " -> ".join(stack[stack.index(name):] + [name]))
            return
        if name in done:
            return
        for target in graph.get(name, []):
            visit(target, stack + [name])
        done.add(name)

    for name in graph:
        visit(name, [])
    return faults


def without_cstdint(names):
    """Files that name an integer of <cstdint> and do not reach it."""
    reaches, faults = {}, []

    def reached(name):
        if name not in reaches:
            path = ROOT / name
            reaches[name] = name == "cstdint"  # while a cycle is followed
            lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
            targets = [match.group(2) for match in map(INCLUDE.match, lines) if match]
            folder = name.rpartition("/")[0]
            beside = [f"{folder}/{target}" if (path.parent / target).is_file() else target for target in targets]
            reaches[name] = reaches[name] or any(map(reached, beside))
        return reaches[name]

    for name in names:
        named = re.search(r"\bu?int(8|16|32|64)_t\b", (ROOT / name).read_text(encoding="utf-8"))
        if named and not reached(name):
            faults.append(f"{name}: names {named.group()} and includes no <cstdint>")
    return faults


POSITIONS = positions()

if __name__ == "__main__":
    sys.exit(main())
