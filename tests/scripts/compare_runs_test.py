#!/usr/bin/env python3
"""The lines of bench/compare_runs.py, with a program that only says what whisker would.

usage: compare_runs_test.py SOURCE
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
# A training that has a first step waits to be ended, the others end by themselves with 0.9 and a hundredth per seed.
PROGRAM = r"""#!/usr/bin/env bash
echo "$*" >>"$(dirname "$0")/calls"
[ "$1" != classify ] || exit 0
mkdir -p runs/x
touch runs/x/best.safetensors
case "$*" in
  *train.epochs=1*) ;;
  *model=resnet18*)
    echo "data and network ready 0.30 s after the program started"
    echo "first step done 0.42 s after the program started"
    exec sleep 600 ;;
  *seed=*)
    words=$*
    seed=${words#*seed=}
    printf '{"kind":"epoch","epoch":%d,"val_accuracy":%s}\n' 1 0.1 2 "0.9${seed%% *}" >runs/x/metrics.jsonl
    echo '{"kind":"step","step":3}' >>runs/x/metrics.jsonl ;;
esac
"""


def expect(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


with tempfile.TemporaryDirectory() as folder:
    scratch = pathlib.Path(folder)
    program, data = scratch / "whisker", scratch / "data"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    for part in ("train", "val"):
        (data / part / "cat").mkdir(parents=True)
    (data / "val/cat/1.jpg").touch()
    done = subprocess.run([sys.executable, SOURCE / "bench/compare_runs.py", program, data, "--no-peer", "--rounds", "2",
                           "--seeds", "3", "--threads", "1", "--set", "train.batch_size=8"], capture_output=True, text=True)
    expect(done.returncode == 0, f"exit {done.returncode}\n{done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    expect([line["what"] for line in lines] == ["first step", "classify one photograph, cold", "training run"], lines)
    for line in lines:
        expect(line["commit"] and line["cpu"].endswith("cores") and line["device"] == "cpu", line)
    first, classify, run = lines
    expect(first["whisker_s"] == [0.42, 0.42] and first["id"] == "resnet18", first)
    expect(len(classify["whisker_s"]) == 2 and "pytorch_s" not in classify, classify)
    expect(run["id"] == "cats_vs_dogs.yaml" and run["seeds"] == [1, 2, 3] and run["accuracy"] == [0.91, 0.92, 0.93]
           and len(run["seconds"]) == 3 and run["epochs"] == 2 and run["settings"] == ["train.batch_size=8"], run)
    calls = (scratch / "calls").read_text().splitlines()
    expect(sum(call.startswith("classify") for call in calls) == 3, calls)  # the first one warms the system's cache
    expect(any(f"data.train={data}/train" in call and call.endswith("train.batch_size=8") for call in calls), calls)
    # The weights are PyTorch's on both sides.
    (data / "val/cat/2.jpg").touch()
    (scratch / "torch.py").write_text("save = lambda state, path: open(path, 'w').close()\n")
    (scratch / "torchvision.py").write_text("class models:\n    class squeezenet1_1:\n        state_dict = dict\n")
    done = subprocess.run([sys.executable, SOURCE / "bench/compare_runs.py", program, data, "--no-peer", "--rounds", "2",
                           "--what", "photographs"], capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=str(scratch)))
    expect(done.returncode == 0, f"exit {done.returncode}\n{done.stderr}")
    line = json.loads(done.stdout)
    expect(line["what"] == "classify 2 photographs" and line["id"] == "squeezenet1_1" and len(line["whisker_s"]) == 2, line)
    last = (scratch / "calls").read_text().splitlines()[-1]
    expect("squeezenet1_1.pth" in last and f"{data}/val/cat/1.jpg {data}/val/cat/2.jpg --device cpu" in last, last)
    # Nothing of a program that fails.
    program.write_text("#!/usr/bin/env bash\necho broken >&2\nexit 3\n")
    done = subprocess.run([sys.executable, SOURCE / "bench/compare_runs.py", program, data, "--no-peer", "--what",
                           "accuracy"], capture_output=True, text=True)
    expect(done.returncode == 1 and not done.stdout and "exit 3\nbroken" in done.stderr, done.stderr)
print("lines of runs are as they should be")
