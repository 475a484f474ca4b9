"""What every raw line says of where it was measured: commit, machine, libraries."""
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent.parent


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""


def machine(device):
    """The commit of this source folder, and the processor or the GPU with its driver."""
    commit = first_line("git", "-C", str(SOURCE), "rev-parse", "--short=7", "HEAD") or "unknown"
    if commit != "unknown" and first_line("git", "-C", str(SOURCE), "status", "--porcelain", "-uno"):
        commit += " with changes"
    if device == "cuda":
        gpu, _, driver = first_line("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").partition(", ")
        return {"commit": commit, "gpu": gpu, "driver": driver}
    with open("/proc/cpuinfo") as info:
        names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return {"commit": commit, "cpu": f"{names[0] if names else 'unknown'}, {len(os.sched_getaffinity(0))} cores"}
