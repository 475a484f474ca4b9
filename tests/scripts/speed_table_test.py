#!/usr/bin/env python3
"""The tables of speeds are those of the raw lines, and scripts/speed_table.py takes the lines that it should.

usage: speed_table_test.py SOURCE
"""
import json
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
TABLE = SOURCE / "scripts" / "speed_table.py"
GPU = {"gpu": "H200", "peer": "PyTorch 2.11.0"}
CPU = {"cpu": "EPYC, 2 cores, otherwise idle", "pytorch": "2.15.0+cpu"}


def step(machine, commit, ours, theirs, **more):
    mode = min(theirs, key=theirs.get)
    return {**machine, "commit": commit, "id": "keras64", "batch": 32, "precision": "f32", "whisker_ms": ours,
            "pytorch_ms": theirs[mode], "pytorch_mode": mode, "pytorch_all_ms": theirs, "whisker_mib": 38,
            "pytorch_mib": 286, **more}


LINES = {
    "2026-01-02-a.jsonl": [
        step(GPU, "aaaaaaa", 0.2, {"eager": 2.0, "compiled": 0.4}),
        step(GPU, "bbbbbbb", 0.1016, {"eager": 2.0, "autotuned": 0.2942}),
        step(GPU, "ccccccc", 0.09, {"eager": 2.0}),  # which leaves out what was faster
        step(GPU, "ddddddd with changes", 0.05, {"compiled": 0.4}),
        step(GPU, "eeeeeee", 12.345, {"captured": 1000.0}, id="lstm", batch=64, precision="bf16"),  # never compiled
        step(GPU, "eeeeeee", 23.456, {"captured": 1000.0}, id="lstm", batch=64),  # a second row of it
        step(GPU, "eeeeeee", 0.11, {"compiled": 0.4}, ranks=2, whisker_images_per_s=581818, scaling=1.847,
             pytorch_images_per_s=160000, pytorch_scaling=1.471, sum_share=0.0312),
        {**GPU, "commit": "eeeeeee", "what": "PyTorch alone", "id": "keras64", "batch": 32, "pytorch_ms": 0.1},
        {**GPU, "commit": "eeeeeee", "what": "tests", "passed": 5},
        {**GPU, "commit": "eeeeeee", "what": "x.yaml, last epoch", "accuracy": [0.9, 0.92, 0.94], "seconds": [10, 11, 13.0]},
        {**GPU, "commit": "eeeeeee", "what": "training run", "id": "x.yaml", "settings": ["device=cuda:0,cuda:1"],
         "accuracy": [0.9, 0.92, 0.94], "seconds": [6, 7, 8.0]},
        {**GPU, "commit": "eeeeeee", "what": "y.yaml, last epoch", "accuracy": [0.9, 0.92], "seconds": [10, 11]},
    ],
    "2026-01-01-b.jsonl": [
        step(CPU, "1111111", 9.0, {"eager": 36.0}),
        {**CPU, "commit": "2222222", "id": "keras64", "batch": 32, "precision": "f32", "whisker_ms": 5, "pytorch_ms": 6},
        {**CPU, "commit": "3333333", "what": "classify one photograph, cold", "id": "resnet18", "whisker_s": [0.2, 0.1, 0.3],
         "pytorch_s": {"eager": [4.0, 5.0, 4.4]}},
        {**CPU, "commit": "3333333", "what": "classify 1000 photographs", "id": "squeezenet1_1", "whisker_s": [5.0, 5.5],
         "pytorch_s": {"0 workers": [11.0, 12.0], "2 workers": [13.0, 13.0]}},
        {**CPU, "commit": "3333333", "what": "first step", "id": "resnet18", "whisker_s": [0.5],
         "pytorch_s": {"eager": [8.0], "compiled": [40.0]}},
        {**CPU, "commit": "3333333", "what": "training run", "id": "z.yaml", "settings": ["train.epochs=2"],
         "accuracy": [0.5, 0.5, 0.5], "seconds": [600, 600, 600]},
    ],
}
EXPECTED = """\
| what | machine | Whisker | PyTorch | its mode | ratio | Whisker MiB | PyTorch MiB | commit |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| keras64, batch 32, f32 | H200 | 0.102 ms | 0.294 ms | autotuned 2.11 | 0.35 | 38 | 286 | bbbbbbb |
| lstm, batch 64, bf16 | H200 | 12.3 ms | 1000 ms | captured 2.11 | 0.01 | 38 | 286 | eeeeeee |
| x.yaml, 3 seeds | H200 | 92.0 ± 1.2 % in 11.3 s |  |  |  |  |  | eeeeeee |
| keras64, batch 32, f32 | EPYC, 2 cores | 9.00 ms | 36.0 ms | eager 2.15 | 0.25 | 38 | 286 | 1111111 |
| first step, resnet18 | EPYC, 2 cores | 0.500 s | 8.00 s | eager 2.15 | 0.06 |  |  | 3333333 |
| classify one photograph, resnet18 | EPYC, 2 cores | 0.200 s | 4.40 s | eager 2.15 | 0.05 |  |  | 3333333 |
| classify 1000 photographs, squeezenet1_1 | EPYC, 2 cores | 5.25 s | 11.5 s | 0 workers 2.15 | 0.46 |  |  | 3333333 |
| z.yaml train.epochs=2, 3 seeds | EPYC, 2 cores | 50.0 ± 0.0 % in 600 s |  |  |  |  |  | 3333333 |
"""
SEVERAL = """\
| network, batch per GPU | GPUs | Whisker, images/s | scaling | exposed all-reduce | PyTorch, images/s | scaling | PyTorch's mode | Whisker MiB | PyTorch MiB | commit |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| keras64, batch 32, f32 | 2 H200 | 581,818 | 1.85 | 3.1 % | 160,000 | 1.47 | compiled 2.11 | 38 | 286 | eeeeeee |
"""


def expect(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def run(status, *words):
    done = subprocess.run([sys.executable, TABLE, *words], capture_output=True, text=True)
    said = done.stdout + done.stderr
    expect(done.returncode == status, f"{words}: expected exit {status}, got {done.returncode}\n{said}")
    return said


run(0, "--check")
with tempfile.TemporaryDirectory() as folder:
    scratch = pathlib.Path(folder)
    for name, lines in LINES.items():
        (scratch / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    readme = scratch / "README.md"
    several = scratch / "several.md"
    words = ["--readme", readme, "--several", several, "--results", scratch]
    begin, end = "<!-- scripts/speed_table.py: from here -->\n", "<!-- scripts/speed_table.py: to here -->\n"
    readme.write_text(f"before\n{begin}old\n{end}after\n")
    several.write_text(begin + end)
    expect("  old" in run(1, "--check", *words), "an old table passed")
    run(0, *words)
    expect(readme.read_text() == f"before\n{begin}{EXPECTED}{end}after\n", f"expected {EXPECTED}got {readme.read_text()}")
    expect(several.read_text() == begin + SEVERAL + end, f"expected {SEVERAL}got {several.read_text()}")
    run(0, "--check", *words)
    several.write_text(several.read_text().replace("1.85", "1.95"))
    expect("| 1.85 |" in run(1, "--check", *words), "a changed figure of several GPUs passed")
    run(0, *words)
    # A figure changed by hand; a newer line; a row too many; no table.
    readme.write_text(readme.read_text().replace("0.102 ms", "0.101 ms"))
    expect("0.102 ms" in run(1, "--check", *words), "a changed figure passed")
    run(0, *words)
    with (scratch / "2026-01-03.jsonl").open("w") as newer:
        newer.write(json.dumps(step(CPU, "4444444", 8.0, {"eager": 36.0, "compiled": 20.0})) + "\n")
    expect("| 8.00 ms | 20.0 ms | compiled 2.15 | 0.40 |" in run(1, "--check", *words), "a newer line was overlooked")
    run(0, *words)
    readme.write_text(readme.read_text().replace(end, "| a row | too many |\n" + end))
    expect("too many" in run(1, "--check", *words), "a row too many passed")
    readme.write_text("no table\n")
    expect("once each" in run(1, *words), "wrote without a place to write to")
    (scratch / "2026-01-04.jsonl").write_text("{\n")
    expect("2026-01-04.jsonl:1: expected one JSON object" in run(1, "--check", *words[2:]), "took a broken line")
print("the table is that of the lines")
