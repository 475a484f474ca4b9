#!/usr/bin/env bash
# ./quickstart on a small folder of its own, its wrong calls, and the commands that it prints at the end.
#   quickstart_test.sh SOURCE BUILD        BUILD is SOURCE/build/release, built
set -euo pipefail
source=$1 build=$2
scratch=$(mktemp -d)
run=
trap 'rm -rf "$scratch"; [ -z "$run" ] || rm -rf "${source:?}/$run"' EXIT

expect_exit() {
  local wanted=$1 status=0; shift
  "$@" >"$scratch/out" 2>&1 || status=$?
  [ "$status" -eq "$wanted" ] || { cat "$scratch/out"; echo "FAILED: $* ended with $status, expected $wanted"; exit 1; }
}

expect_exit 3 "$source/quickstart" "$scratch/nowhere"
expect_exit 2 "$source/quickstart" one two
expect_exit 0 "$source/quickstart" --help

"$build/whisker" data generate "$scratch/my images" --per-class 24 --val-per-class 8 --seed 3 >/dev/null
expect_exit 0 "$source/quickstart" "$scratch/my images"
run=$(sed -n 's/^Run folder: *\([^ ]*\).*/\1/p' "$scratch/out")
[ -n "$run" ] && [ -f "$source/$run/best.safetensors" ] || { cat "$scratch/out"; echo "FAILED: no run folder"; exit 1; }
[ "$(grep -c '\.jpg:  ' "$scratch/out")" -ge 4 ] || { cat "$scratch/out"; echo "FAILED: no classified examples"; exit 1; }

# What it says to type next, with the image of the example filled in and training cut short.
cd "$source"
photo=$(find "$scratch/my images" -name '*.jpg' | head -n 1)
sed -n '/^Next:/,$p' "$scratch/out" | sed 1d >"$scratch/next"
[ "$(wc -l <"$scratch/next")" -ge 3 ] || { cat "$scratch/out"; echo "FAILED: nothing to do next"; exit 1; }
while IFS= read -r command <&3; do
  case "$command" in
    *" --resume "*) command=${command//train.epochs=24/train.epochs=13} ;;
    *" train "*) command="$command --dry-run" ;;
  esac
  eval "${command//your_photo.jpg/\"\$photo\"}" >"$scratch/out" 2>&1 ||
    { cat "$scratch/out"; echo "FAILED: $command"; exit 1; }
done 3<"$scratch/next"
echo "quickstart and $(wc -l <"$scratch/next") next commands ran"
