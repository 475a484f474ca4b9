#!/usr/bin/env bash
# Runs the tests that use a GPU, as many processes at a time as there are cores.
#   scripts/gpu_tests.sh BUILD_FOLDER
#     --jobs N     processes at a time (cores, at most 16)
#     --limit S    seconds that each of them may take (500)
# The last line counts the tests: N passed, N failed, N skipped; above it what failed. A process that ends before its
# tests did counts as one failed test. Exit code 1 when one failed, 2 for a wrong call.
set -uo pipefail
. "$(dirname "$0")/gpu_test_programs.sh"

usage() { sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
folder="" jobs=$(nproc) limit=500
[ "$jobs" -le 16 ] || jobs=16
while [ $# -gt 0 ]; do
  case "$1" in
    --jobs | --limit) [ $# -gt 1 ] || usage; declare "${1#--}=$2"; shift ;;
    -*) usage ;;
    *) [ -z "$folder" ] || usage; folder=$1 ;;
  esac
  shift
done
[ -n "$folder" ] || usage
[[ $jobs =~ ^[1-9][0-9]*$ && $limit =~ ^[1-9][0-9]*$ ]] || usage
[ -d "$folder/tests" ] || { echo "gpu_tests.sh: no tests in the build folder '$folder'." >&2; exit 2; }
logs=$folder/gpu_tests
rm -rf "$logs" && mkdir -p "$logs" || exit 2
folder=$(realpath -- "$folder") logs=$(realpath -- "$logs")
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} XDG_CACHE_HOME=$logs/cache limit folder logs

# run_shard PROGRAM FILTER SHARD SHARDS [NAME of its log]
run_shard() {
  local log=$logs/${1##*/}.${5:-$3}.log
  (cd "$folder/tests/${1%/*}" && GTEST_SHARD_INDEX=$3 GTEST_TOTAL_SHARDS=$4 \
    timeout -k 10 "$limit" "$folder/tests/$1" "--gtest_filter=$2" >"$log" 2>&1)
  local status=$?
  grep -q '^\[==========\] .* ran\.' "$log" || echo "[  FAILED  ] ${1##*/} (exit code $status) (ended early)" >>"$log"
}
export -f run_shard

for entry in "${gpu_library_programs[@]}" "${gpu_test_programs[@]}"; do
  patterns=${entry#*|}
  for ((shard = 0; shard < jobs; ++shard)); do
    printf '%s\0%s\0%d\0%d\0' "${entry%%|*}" "${patterns// /:}-$gpu_tests_alone" "$shard" "$jobs"
  done
done | xargs -0 -n 4 -P "$jobs" bash -c 'run_shard "$@"' _
for entry in "${gpu_test_programs[@]}"; do
  run_shard "${entry%%|*}" "$gpu_tests_alone" 0 1 alone
done

count() { cat "$logs"/*.log | grep -cE "^\[ *$1 *\] .*\(([0-9]+ ms|ended early)\)$"; }
passed=$(count OK) failed=$(count FAILED) skipped=$(count SKIPPED)
if [ "$failed" -gt 0 ]; then
  for log in $(grep -lE '^\[  FAILED  \]' "$logs"/*.log); do
    echo "--- $log"
    grep -vE '^\[ +(OK|RUN|SKIPPED) +\]' "$log" | tail -n 60
  done
fi
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
