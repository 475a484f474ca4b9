#!/usr/bin/env python3
"""Checks the arrows of the house: which folder may include which, and what public headers may reach.

    python3 scripts/check_includes.py          exit code 1 and one line per forbidden include
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
    r"(oneapi/)?dnnl.*": "core/cpu/dnnl_",
    r"cblas.*|openblas.*": "core/cpu/",
    r"cuda.*|cudnn.*|cublas.*|nccl.*|nvjpeg.*": "core/cuda/",
    r"yaml-cpp/.*": "core/io/yaml",
    r"nlohmann/.*": "core/io/",
    r"jpeglib\.h|jerror\.h": "data/",
    r"stb.*": "data/",
    r"zip\.h": "data/",
    r"CLI/.*": "apps/",
}
# Folders whose headers only their own files include, so library headers may stand in them.
INNER = ("core/cpu/", "core/cuda/")
# The folders of core/cuda from the ground up: each stands on those before it, core/cuda itself on all.
CUDA_FOLDERS = ["gpu", "device", "memory", "tuning", "operators", "product", "norm", "convolution", "pictures",
                "recurrent", "chains", ""]
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
            if name.startswith("core/cuda/") and cuda_floor(name) < 0:
                faults.append(f"{name}: CUDA_FOLDERS in scripts/check_includes.py does not name its folder")
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
                    if cuda_floor(target) > cuda_floor(name) >= 0:
                        faults.append(f"{name}:{number}: must not include {target}, of a folder further up")
                for pattern, owner in OWNERS.items():
                    if re.fullmatch(pattern, target) and first not in MAY_INCLUDE:
                        if not name.startswith(owner):
                            faults.append(f"{name}:{number}: only {owner}* may include <{target}>")
                        elif path.suffix == ".h" and folder != "apps" and not name.startswith(INNER):
                            faults.append(f"{name}:{number}: <{target}> is reachable from a header")
    faults += cycles(graph)
    print("\n".join(faults))
    return 1 if faults else 0


def cuda_floor(name):
    """The place in CUDA_FOLDERS of the folder of a file in core/cuda; -1 for others, and where there is none."""
    inner = re.fullmatch(r"core/cuda/((.*)/)?[^/]*", name)
    folder = inner and (inner.group(2) or "")
    return CUDA_FOLDERS.index(folder) if folder in CUDA_FOLDERS else -1


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


if __name__ == "__main__":
    sys.exit(main())
