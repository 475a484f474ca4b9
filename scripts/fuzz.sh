#!/usr/bin/env bash
# Runs every fuzz target for a while, two at a time, from its seed corpus.
#   scripts/fuzz.sh BUILD_FOLDER [SECONDS_EACH]
# Exit code 1 when a target found a crash, a leak, a hang or too much memory; its input is kept.
set -euo pipefail
folder=$1 seconds=${2:-45}
root=$(cd "$(dirname "$0")/.." && pwd)
findings=$folder/findings
mkdir -p "$findings"

run_one() {
  local target=$1 name corpus
  name=$(basename "$target")
  corpus=$(mktemp -d)
  local seeds=("$corpus")
  [ -d "$root/tests/fuzz/corpus/${name#fuzz_}" ] && seeds+=("$root/tests/fuzz/corpus/${name#fuzz_}")
  "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$findings/$name-" "${seeds[@]}" >"$findings/$name.log" 2>&1
  local status=$?
  rm -rf "$corpus"
  grep -E 'number_of_executed_units|ERROR|SUMMARY' "$findings/$name.log" | sed "s|^|$name: |"
  return $status
}
export -f run_one
export findings seconds root
set +e
find "$folder/tests/fuzz" -maxdepth 1 -type f -executable -name 'fuzz_*' | sort |
  xargs -P 2 -I{} bash -c 'run_one {}'
