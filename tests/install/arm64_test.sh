#!/usr/bin/env bash
# The program of build/arm64, in qemu-user, beside that of build/release: it computes with OpenBLAS, draws the same
# images, trains, and its predictions differ from the other's by rounding alone.
#   arm64_test.sh SOURCE
set -euo pipefail
source=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export XDG_CACHE_HOME=$scratch/cache
native() { "$source/build/release/whisker" "$@" 2>>log; }
arm() { qemu-aarch64 -L "$source/build/arm64-root" "$source/build/arm64/whisker" "$@" 2>>log; }
fail() { echo "FAILED: $1"; cat log; exit 1; }

arm version >version || fail version
grep -q '^built for  aarch64 ' version && grep -q 'NEON' version && grep -q 'OpenBLAS' version ||
  { cat version; fail "the version's facts"; }
native data generate drawn --per-class 8 --val-per-class 2 --seed 7 >/dev/null || fail "data generate"
arm data generate arm --per-class 8 --val-per-class 2 --seed 7 >/dev/null || fail "data generate for ARM"
diff -r drawn arm >differences || { cat differences; fail "other images"; }
arm train --data drawn train.epochs=1 data.image_size=32 >/dev/null || fail train
native classify runs/drawn/best.safetensors drawn --jsonl >native.jsonl || fail classify
arm classify runs/drawn/best.safetensors drawn --jsonl >arm.jsonl || fail "classify on ARM"
python3 - <<'COMPARE' || fail "other predictions"
import json
rows = [[json.loads(line) for line in open(name)] for name in ("native.jsonl", "arm.jsonl")]
assert len(rows[0]) == len(rows[1]) == 20, [len(r) for r in rows]
worst = 0
for native, arm in zip(*rows):
    best, other = native["predictions"][0], arm["predictions"][0]
    assert (native["path"], best["class"]) == (arm["path"], other["class"]), (native, arm)
    worst = max(worst, abs(best["probability"] - other["probability"]))
assert worst < 1e-5, worst
print(f"predictions of 20 images differ from x86-64's by up to {worst:.1e}")
COMPARE
