#!/usr/bin/env bash
# What scripts/sanitize_gpu.sh makes of findings, failed tests, hangs and errors of the tools themselves, with a
# compute-sanitizer and test programs that only say what the real ones would: no GPU needed.
#   sanitize_gpu_test.sh SOURCE
set -euo pipefail
source=$1
scratch=$(realpath "$(mktemp -d)")
trap 'rm -rf "$scratch"' EXIT

# Tests as GoogleTest lists and runs them; $FAILING fails, $HANGING takes long, in $BREAKING the tool breaks, and what
# runs behind it in one process fails.
cat >"$scratch/program" <<'PROGRAM'
#!/usr/bin/env bash
set -euo pipefail
tests=(CudaWide.One CudaWide.Two CudaWide.Three CudaConvolution.Strided CudaConvolution.WithoutLibraries
  CudaCapture.Replays CudaFewChannelsConv.Cut CudaLost.Breaks NetworkOn.Trains/cpu NetworkOn.Trains/cuda_0)
for argument; do
  case "$argument" in
    --gtest_list_tests) list=1 ;;
    --gtest_filter=*) IFS=: read -r -a wanted <<<"${argument#*=}" ;;
  esac
done
if [ -n "${list:-}" ]; then
  echo "Running main() from gtest_main.cc"
  for test in "${tests[@]}"; do
    [[ $test == ${wanted[0]} ]] || continue
    printf '%s.\n  %s  # GetParam() = 1\n' "${test%.*}" "${test#*.}"
  done
  exit
fi
mine=()
for i in "${!wanted[@]}"; do
  [ $((i % GTEST_TOTAL_SHARDS)) -ne "$GTEST_SHARD_INDEX" ] || mine+=("${wanted[i]}")
done
echo "[==========] Running ${#mine[@]} tests from 1 test suite."
status=0
for test in "${mine[@]}"; do
  echo "[ RUN      ] $test"
  case "$test" in
    "${BREAKING:-}") echo "========= Internal Sanitizer Error: failed to handle a hardware exception"; FAILING=* ;;&
    "${HANGING:-}") [[ $0 != */whisker_core_cuda_tests ]] || sleep 30 ;;&
    ${FAILING:-}) status=1; echo "[  FAILED  ] $test, where GetParam() = 1 (1 ms)" ;;
    *) echo "[       OK ] $test (1 ms)" ;;
  esac
done
echo "[  PASSED  ] some tests."
exit $status
PROGRAM

# $TOLD of the tool in $TELLING for the tests of whisker_core_cuda_tests; its options go to a file.
mkdir "$scratch/bin"
cat >"$scratch/bin/compute-sanitizer" <<'TOOL'
#!/usr/bin/env bash
options=()
while [[ $1 != /* ]]; do options+=("$1"); shift; done
echo "${options[*]} ${1##*/} $2" >>"$CALLS"
tool=${options[1]}
echo "========= COMPUTE-SANITIZER"
"$@"
status=$?
told=clean
[[ $1 != */whisker_core_cuda_tests || $tool != "${TELLING:-}" ]] || told=$TOLD
case $told in
  clean)
    if [ "$tool" = racecheck ]; then echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
    else echo "========= ERROR SUMMARY: 0 errors"; fi ;;
  error)
    printf '========= %s\n' "Invalid __global__ read of size 4 bytes" "    at whisker::add" \
      "ERROR SUMMARY: 120 errors" \
      "ERROR SUMMARY: 20 errors were not printed. Use --print-limit option to adjust the number of printed errors" ;;
  hazard)
    printf '========= %s\n' "Error: Race reported between Write access and Read access" \
      "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)" ;;
esac
exit $status
TOOL
chmod +x "$scratch/program" "$scratch/bin/compute-sanitizer"

tree=$scratch/build
for program in core/whisker_core_cuda_tests core/whisker_core_op_tests core/whisker_core_tape_tests \
    core/whisker_core_cuda_few_channels_tests layers/whisker_layers_tests train/whisker_train_run_tests \
    data/whisker_data_image_tests data/whisker_data_loader_tests; do
  mkdir -p "$tree/tests/${program%/*}"
  ln -s "$scratch/program" "$tree/tests/$program"
done
export CALLS=$scratch/calls PATH=$scratch/bin:$PATH

# expect CODE LINE VARIABLE=VALUE... -- ARGUMENT...: exit code, and a line that is among what is printed.
expect() {
  local wanted=$1 text=$2 status=0 variables=(); shift 2
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  : >"$CALLS"
  env "${variables[@]}" "$source/scripts/sanitize_gpu.sh" "$@" >"$scratch/said" 2>&1 || status=$?
  if [ "$status" -ne "$wanted" ] || ! grep -qxF -- "$text" "$scratch/said"; then
    echo "FAILED with ${variables[*]} -- $*: expected $wanted and '$text', got $status and"
    cat "$scratch/said"
    exit 1
  fi
}
called() {  # WORDS...: that a call with these words in this order was made
  local words
  words=$(printf '.*%s' "$@")
  grep -qE -- "$words" "$CALLS" || { echo "FAILED: no call with $*"; cat "$CALLS"; exit 1; }
}
line() { printf '%-9s %-31s %s' "$1" whisker_core_cuda_tests "$2"; }

# Clean, all four tools, what they cannot do apart or left out.
expect 0 "$(line memcheck "9 passed, 0 failed, 0 skipped, 1 left out; 0 errors; 0 unfinished")" -- "$tree" --jobs 3
grep -qx "$(line initcheck "9 passed, 0 failed, 0 skipped, 1 left out; 0 errors; 0 unfinished")" "$scratch/said"
grep -qx "$(line racecheck "8 passed, 0 failed, 0 skipped, 2 left out; 0 hazards; 0 unfinished")" "$scratch/said"
[ "$(wc -l <"$scratch/said")" -eq 21 ] || { cat "$scratch/said"; echo "FAILED: not 4 tools over 5 programs"; exit 1; }
called "--tool racecheck" "--kernel-name kns=whisker" whisker_core_cuda_tests CudaWide.One
called "--tool racecheck" whisker_core_cuda_tests "CudaConvolution.WithoutLibraries"
called "--tool initcheck" "--check-api-memory-access no" whisker_core_cuda_tests "=CudaCapture.Replays:NetworkOn.Trains/cuda_0$"
called "--tool memcheck" whisker_train_run_tests "NetworkOn.Trains/cuda_0"
! grep "whisker_train_run_tests.*NetworkOn.Trains/cpu" "$CALLS" || { echo "FAILED: no test for the CPU"; exit 1; }
! grep -E "CudaLost|racecheck.*CudaConvolution.Strided" "$CALLS" || { echo "FAILED: these were to be left out"; exit 1; }

# Findings, by the summary's number; a failed test alone.
expect 1 "$(line memcheck "1 passed, 0 failed, 0 skipped, 0 left out; 120 errors; 0 unfinished")" \
  TELLING=memcheck TOLD=error -- "$tree" memcheck --filter CudaWide.One
expect 1 "$(line racecheck "1 passed, 0 failed, 0 skipped, 0 left out; 1 hazards; 0 unfinished")" \
  TELLING=racecheck TOLD=hazard -- "$tree" racecheck --filter CudaWide.One
expect 1 "$(line synccheck "2 passed, 1 failed, 0 skipped, 0 left out; 0 errors; 0 unfinished")" \
  FAILING=CudaWide.Two -- "$tree" synccheck --filter 'CudaWide.*'

# What did not finish: over the limit that it had to itself, without a summary, by an error of the tool. What is behind
# runs all the same.
log=whisker_core_cuda_tests.0.log
expect 1 "          memcheck.${log%.log}.1.log: over the limit of 1 s in CudaWide.Two, 0 of 2 tests done" \
  HANGING=CudaWide.Two -- "$tree" memcheck --jobs 1 --limit 1 --filter 'CudaWide.*'
grep -qx "$(line memcheck "2 passed, 0 failed, 0 skipped, 0 left out; 0 errors; 1 unfinished")" "$scratch/said"
called "--tool memcheck" whisker_core_cuda_tests "=CudaWide.Three$"
expect 1 "$(line racecheck "2 passed, 0 failed, 0 skipped, 0 left out; 0 hazards; 1 unfinished")" \
  BREAKING=CudaWide.Two -- "$tree" racecheck --jobs 1 --filter 'CudaWide.*'
grep -qx "          racecheck.$log: internal error of the tool in CudaWide.Two, 1 of 3 tests done" "$scratch/said"
called "--tool racecheck" whisker_core_cuda_tests "=CudaWide.Three$"

expect 1 "Nothing used a GPU: see the logs in $scratch/logs." -- "$tree" --filter Nothing.ToRun --out "$scratch/logs"
echo "findings, failures and what does not finish are told apart"
