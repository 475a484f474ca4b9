#!/usr/bin/env bash
# What scripts/shared_gpu_test.sh makes of failed tests, differing weights and a GPU that nothing else used, with
# programs that only say what the real ones would: no GPU needed.
#   shared_gpu_test.sh SOURCE
set -euo pipefail
source=$1
scratch=$(realpath "$(mktemp -d)")
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/build
mkdir -p "$tree/bench" "$tree/tests/core"

# Repetitions as GoogleTest counts them; in $FAILING one test fails, in $ENDING the program ends after the first.
cat >"$scratch/program" <<'PROGRAM'
#!/usr/bin/env bash
name=${0##*/} times=1 status=0
for argument; do
  case "$argument" in --gtest_repeat=*) times=${argument#*=} ;; esac
done
until [ -e "$SEEN/busy" ]; do sleep 0.05; done  # which takes the second process a moment to begin
for ((i = 1; i <= times; ++i)); do
  passed=2
  if [ "$name" = "${FAILING:-}" ] && [ "$i" -eq 2 ]; then
    echo "[  FAILED  ] CudaCapture.Replays (3 ms)"
    passed=1 status=1
  fi
  printf '[==========] 2 tests from 1 test suite ran. (5 ms total)\n[  PASSED  ] %d tests.\n' $passed
  [ "$name" != "${ENDING:-}" ] || exit 139
done
exit $status
PROGRAM
for program in whisker_core_cuda_tests whisker_core_cuda_few_channels_tests; do
  ln -s "$scratch/program" "$tree/tests/core/$program"
done
# Weights that are always the same; in $BENDING other ones where the GPU is busy.
cat >"$tree/whisker" <<'PROGRAM'
#!/usr/bin/env bash
if [ "$1" = train ]; then
  case "$*" in
    *device=cuda*deterministic=true*images/train*) name=resnet ;;
    *device=cuda*deterministic=true*waves/train.csv*) name=lstm ;;
    *) exit 2 ;;
  esac
  case "$PWD" in *-alone) ;; *) until [ -e "$SEEN/busy" ]; do sleep 0.05; done ;; esac
  mkdir -p runs/last
  echo "$name" >runs/last/model-9.safetensors
  if [ "$name" = "${BENDING:-}" ] && [ -e "$SEEN/busy" ]; then date +%N >>runs/last/model-9.safetensors; fi
fi
PROGRAM
cat >"$tree/bench/bench_step" <<'PROGRAM'
#!/usr/bin/env bash
echo $$ >"$SEEN/busy_process"
echo "$*" >>"$SEEN/busy"
[ -z "${IDLE:-}" ] || exit 5
exec sleep 600
PROGRAM
chmod +x "$scratch/program" "$tree/whisker" "$tree/bench/bench_step"
export SEEN=$scratch/seen

# expect CODE LINE VARIABLE=VALUE... -- ARGUMENT...: exit code, and a line that is among what is printed.
expect() {
  local wanted=$1 text=$2 status=0 variables=(); shift 2
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  rm -rf "$SEEN"
  mkdir "$SEEN"
  env "${variables[@]}" "$source/scripts/shared_gpu_test.sh" "$@" >"$scratch/said" 2>&1 || status=$?
  if [ "$status" -ne "$wanted" ] || ! grep -qxF -- "$text" "$scratch/said"; then
    echo "FAILED with ${variables[*]} -- $*: expected $wanted and '$text', got $status and"
    cat "$scratch/said"
    exit 1
  fi
}
line() { printf '%-32s %s' "$1" "$2"; }

expect 0 "$(line whisker_core_cuda_tests "3 of 3 repetitions, 6 tests passed, 0 failed")" -- "$tree" --repeats 3
expect 0 "$(line lstm "3 of 3 trainings with the bits of the one alone")" -- "$tree" --repeats 3 --trainings 3
[ "$(wc -l <"$scratch/said")" -eq 4 ] || { cat "$scratch/said"; echo "FAILED: not 2 programs and 2 trainings"; exit 1; }
grep -q "^resnet18 --device cuda" "$SEEN/busy" || { echo "FAILED: nothing kept the GPU busy"; exit 1; }
! kill -0 "$(cat "$SEEN/busy_process")" 2>/dev/null || { echo "FAILED: the second process goes on"; exit 1; }
expect 0 "$(line resnet "1 of 1 trainings with the bits of the one alone")" -- "$tree" --repeats 1 --trainings 1 \
  --busy "$tree/bench/bench_step mine"
grep -qx mine "$SEEN/busy" || { echo "FAILED: --busy was not run"; exit 1; }

expect 1 "$(line whisker_core_cuda_few_channels_tests "3 of 3 repetitions, 5 tests passed, 1 failed")" \
  FAILING=whisker_core_cuda_few_channels_tests -- "$tree" --repeats 3
grep -qx " *1 \[  FAILED  \] CudaCapture.Replays" "$scratch/said" || { echo "FAILED: the test is not named"; exit 1; }
expect 1 "$(line whisker_core_cuda_tests "1 of 3 repetitions, 2 tests passed, 0 failed")" \
  ENDING=whisker_core_cuda_tests -- "$tree" --repeats 3
expect 1 "$(line lstm "0 of 2 trainings with the bits of the one alone")" BENDING=lstm -- "$tree" --repeats 2 --trainings 2
expect 1 "Nothing ran beside it: ended with exit code 5" IDLE=1 -- "$tree" --repeats 1
expect 2 "shared_gpu_test.sh: no build folder at '$scratch/nowhere'." -- "$scratch/nowhere"
expect 2 "shared_gpu_test.sh: expected a whole number for --repeats, got '0'." -- "$tree" --repeats 0
expect 2 "shared_gpu_test.sh: expected a whole number for --trainings, got 'x'." -- "$tree" --trainings x
rm "$tree/bench/bench_step"
expect 2 "shared_gpu_test.sh: no $tree/bench/bench_step: configure with -DWHISKER_BENCH=ON, or name a --busy command." \
  -- "$tree"
echo "a shared GPU's failures and differences are told apart"
