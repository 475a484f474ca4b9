#!/usr/bin/env python3
"""Checks that names use the field's words, where this project's own come to mind too easily.

    python3 scripts/check_words.py          exit code 1 and one line per word found, with what to say instead
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Pattern of a whole word: what to say.
INSTEAD = {
    r"(?!WebPPicture)\w*[Pp]ictures?\w*": "image",
    r"passed[ _]over": "skipped",
    r"held_back|hold_back": "validation_split, choose_validation",
    r"makes?_room_?|room_(for|on|batch_|height_|width_)|room_|\w*Shelf": "reserve_memory, free_bytes, evict, ...Pool",
    r"inverse_deviation": "inv_std",
    r"launch_early|early_launch": "launch_pdl",
    r"(float|int64_t|Gemm|CublasLtGemm)& product|product_desc|Kind::product": "gemm",
    r"\w+_is_joint|joins_batch_norms|prefers_joined": "..._is_fused",
    r"once_only": "no_double_backward",
}
FOLDERS = ("apps", "bench", "cmake", "configs", "core", "data", "docs", "layers", "optim", "scripts", "tests", "train")
# What earlier versions wrote and is still read, and a fixture's seed.
OLD_NAMES = ("train/config/config_read.cpp", "train/checkpoint/train_state.cpp", "tests/train/config/config_test.cpp",
             "tests/layers/torchvision_test.cpp", "scripts/make_torchvision_fixtures.py")
SKIPPED = ("bench/results/", "docs/notes/", "tests/fuzz/corpus/", "tests/golden/", "tests/golden_sequences/",
           "CHANGELOG.md", "scripts/check_words.py") + OLD_NAMES


def main():
    files = [path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    files += [path.name for path in sorted(ROOT.iterdir()) if path.is_file()]
    patterns = [(re.compile(rf"\b({words})\b"), say) for words, say in INSTEAD.items()]
    found = 0
    for name in files:
        path = ROOT / name
        if name.startswith(SKIPPED) or not path.is_file():
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            for pattern, say in patterns:
                for match in pattern.finditer(line):
                    print(f"{name}:{number}: '{match.group()}': say {say}")
                    found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
