#!/usr/bin/env python3
"""Writes the tables of docs/performance.md (one device; README.md has eight of its rows) and of
docs/guide/several_gpus.md from the raw lines in bench/results/*.jsonl.

usage: speed_table.py [--check] [--results FOLDER]

A row is a network with its batch and precision, a cold start, or a configuration's training, on a GPU or on a CPU. Its
figures are one line's: the newest (files by name, lines in order) that was measured at a commit as it is; of steps one
that has both sides and PyTorch's mode, and torch.compile among the modes where any line of that row has it. Accuracies
want three seeds or more.
--check changes nothing: exit code 1 where a file and the lines differ, with the first row that does.
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- scripts/speed_table.py: from here -->\n", "<!-- scripts/speed_table.py: to here -->\n"
HEAD = ["what", "machine", "Whisker", "PyTorch", "its mode", "ratio", "Whisker MiB", "PyTorch MiB", "commit"]
SEVERAL_HEAD = ["network, batch per GPU", "GPUs", "Whisker, images/s", "scaling", "exposed all-reduce", "PyTorch, images/s",
                "scaling", "PyTorch's mode", "Whisker MiB", "PyTorch MiB", "commit"]
NETWORKS = ["keras64", "chollet128", "mlp", "resnet18", "resnet50", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny",
            "vit_s_16", "vit_b_16", "vgg16ft", "lstm", "gru", "rnn", "mobilenet_v3_small"]
# What README shows: whether on a GPU, and the row's name.
README_ROWS = [(True, "resnet50, batch 256, bf16"), (True, "efficientnet_b0, batch 128, bf16"),
               (True, "vit_b_16, batch 64, bf16"), (True, "lstm, batch 64, bf16"), (True, "first step, resnet18"),
               (False, "chollet128, batch 32, f32"), (False, "resnet18, batch 16, f32"),
               (False, "classify one photograph, resnet18")]
STEP, FIRST, CLASSIFY, RUN = "step", "first step", "classify one photograph", "training"
KINDS = [STEP, FIRST, CLASSIFY, RUN]


def significant(value):
    """Three digits, without an exponent."""
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{digits}f}"


def mean_and_error(values):
    percent = [100 * value for value in values]
    return f"{statistics.mean(percent):.1f} ± {statistics.stdev(percent) / math.sqrt(len(percent)):.1f} %"


def times(factor):
    return "" if factor is None else f"{factor:.2f}"


def starts(line):
    """The seconds of both sides' cold starts, PyTorch's by mode."""
    ours = line.get("whisker_s", line.get("whisker", line.get("seconds", [])))
    theirs = line.get("pytorch_s", line.get("pytorch", {}))
    if isinstance(ours, dict):
        ours = list(ours.values())
    if isinstance(theirs, list):
        theirs = {"eager": theirs}
    return ours if isinstance(ours, list) else [ours], theirs if isinstance(theirs, dict) else {}


def row_of(line):
    """What a line says of one row: its kind, name and cells; None for lines that are no figure of the table."""
    what = line.get("what", "")
    peer = next((str(line[key]) for key in ("torch", "pytorch", "peer") if isinstance(line.get(key), str)), what)
    version = re.search(r"(?:PyTorch |^)(\d+\.\d+)", peer)
    row = {"commit": line.get("commit", ""), "machine": line.get("gpu") or line.get("cpu", ""), "on_gpu": "gpu" in line,
           "memory": ["", ""], "version": version[1] if version else "", "several": None}
    if "whisker_ms" in line and "pytorch_ms" in line and "pytorch_mode" in line:
        name = f"{line['id']}, batch {line['batch']}, {line.get('precision', 'f32')}"
        if "ranks" in line:
            row |= {"name": f"{name}, {line['ranks']} GPUs", "several": [
                name, f"{line['ranks']} {row['machine']}", f"{line['whisker_images_per_s']:,}", times(line.get("scaling")),
                f"{100 * line['sum_share']:.1f} %", f"{line['pytorch_images_per_s']:,}", times(line.get("pytorch_scaling"))]}
        row |= {"kind": STEP, "name": row.get("name", name), "ours": f"{significant(line['whisker_ms'])} ms",
                "theirs": f"{significant(line['pytorch_ms'])} ms", "modes": set(line["pytorch_all_ms"]),
                "mode": line["pytorch_mode"], "ratio": line["whisker_ms"] / line["pytorch_ms"],
                "memory": [str(line.get("whisker_mib", "")), str(line.get("pytorch_mib", ""))]}
        return row
    kind = (CLASSIFY if "classify" in what else
            FIRST if re.search(r"first (training )?step", what) and "seeds" not in what else None)
    ours, theirs = starts(line) if kind else ([], {})
    if ours:
        name = line.get("id") or line.get("config") or "resnet18"
        label = what if what.endswith("photographs") else kind
        row |= {"kind": kind, "name": f"{label}, {name}", "ours": f"{significant(statistics.median(ours))} s", "theirs": "",
                "modes": set(theirs), "mode": "", "ratio": None}
        if theirs:
            mode = min(theirs, key=lambda mode: statistics.median(theirs[mode]))
            best = statistics.median(theirs[mode])
            row |= {"theirs": f"{significant(best)} s", "mode": mode, "ratio": statistics.median(ours) / best}
        return row
    accuracies, seconds = line.get("accuracy", line.get("bf16")), line.get("seconds", line.get("bf16_seconds"))
    if not (isinstance(accuracies, list) and isinstance(seconds, list) and len(accuracies) == len(seconds) >= 3
            and None not in seconds):
        return None
    if any(setting.startswith("device=") and "," in setting for setting in line.get("settings", [])):
        return None
    name = " ".join([line.get("id") or what.split(",")[0], *line.get("settings", [])])
    spent = significant(statistics.mean(seconds))
    return row | {"kind": RUN, "name": f"{name}, {len(seconds)} seeds", "ours": f"{mean_and_error(accuracies)} in {spent} s",
                  "theirs": "", "modes": set(), "mode": "", "ratio": None}


def rows_of(folder):
    """The newest line of each row, in the table's order."""
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = row_of(json.loads(text))
            except (ValueError, KeyError, TypeError) as error:
                sys.exit(f"{path}:{number}: expected one JSON object with its figures, got {error!r}")
            if row:
                found.setdefault((row["on_gpu"], row["name"]), []).append(row)
    newest = []
    for rows in found.values():
        if rows[0]["kind"] == STEP:
            rows = [row for row in rows if row["modes"] & {"compiled", "autotuned"}] or rows
        newest += [row for row in rows if re.fullmatch(r"[0-9a-f]{7,40}", row["commit"])][-1:]

    def place(row):
        network = row["name"].split(",")[0]
        return (not row["on_gpu"], KINDS.index(row["kind"]), NETWORKS.index(network) if network in NETWORKS else 99)
    return sorted(newest, key=place)


def table(head, lines):
    return "".join("| " + " | ".join(line) + " |\n" for line in [head, ["---"] * len(head), *lines])


def mode_of(row):
    return " ".join(filter(None, [row["mode"], row["theirs"] and row["version"]]))


def table_of_one(rows):
    return table(HEAD, [[row["name"], row["machine"].split(", otherwise")[0], row["ours"], row["theirs"], mode_of(row),
                         "" if row["ratio"] is None else f"{row['ratio']:.2f}", *row["memory"], row["commit"]]
                        for row in rows if not row["several"]])


def table_of_several(rows):
    return table(SEVERAL_HEAD, [[*row["several"], mode_of(row), *row["memory"], row["commit"]]
                                for row in sorted((row for row in rows if row["several"]), key=lambda row: row["several"][:2])])


def update(path, wanted, check):
    """Whether the file has the table, at the end."""
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        sys.exit(f"{path}: expected the lines '{BEGIN.strip()}' and '{END.strip()}' once each, in this order")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    got = text[start:end]
    if not check:
        path.write_text(text[:start] + wanted + text[end:], encoding="utf-8")
        return True
    if wanted == got:
        return True
    wanted, got = wanted.splitlines() + [""], got.splitlines() + [""]
    at = next(i for i in range(len(wanted)) if i >= len(got) or wanted[i] != got[i])
    print(f"{path}: the raw lines say\n  {wanted[at]}\nwhere it has\n  {got[at] if at < len(got) else ''}\n"
          "scripts/speed_table.py writes the table.")
    return False


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    options = parser.parse_args()
    rows = rows_of(options.results)
    few = [row for row in rows if (row["on_gpu"], row["name"]) in README_ROWS]
    if len(few) != len(README_ROWS):
        sys.exit(f"{options.results}: expected lines of all rows of README, {README_ROWS}, got {len(few)} of them")
    same = [update(ROOT / "README.md", table_of_one(few), options.check),
            update(ROOT / "docs/performance.md", table_of_one(rows), options.check),
            update(ROOT / "docs/guide/several_gpus.md", table_of_several(rows), options.check)]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
