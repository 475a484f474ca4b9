#!/usr/bin/env bash
# Whether results hang on what else the GPU does: tests of persistent, captured and PDL kernels repeated
# beside a second process that keeps the GPU busy, and deterministic captured trainings whose weights must be the bits
# of one alone.
#   scripts/shared_gpu_test.sh BUILD_FOLDER
#     --repeats N     repetitions of the tests (100)
#     --trainings N   repetitions of each training (10)
#     --filter F      GoogleTest's filter for the tests, in place of those of persistent, captured and PDL kernels
#     --busy COMMAND  what keeps the GPU busy, started again when it ends (bench_step: resnet18, lstm and mlp in turns)
#     --out FOLDER    where logs and runs go; cleared first (BUILD_FOLDER/shared_gpu)
# One line per program and training. Exit code 1 when a test failed, a training differed, or nothing ran beside them;
# 2 for a wrong call.
set -uo pipefail

usage() { sed -n '2,12p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
wrong() { echo "shared_gpu_test.sh: $*" >&2; exit 2; }

folder="" repeats=100 trainings=10 busy="" out=""
filter='CudaPersistentRecurrent.*:CudaRecurrentLengths.*:CudaCapture.*:CudaPooledConvolution.*'
filter+=':CudaFewChannelsConv.*:CudaBatchNorm.*:CudaPooling.*:CudaNormPool.*:CudaDepthwise.*'
filter+=':LargeShapes.OnCuda/batch_norm'
# Not what times each algorithm of many convolutions, which takes half a minute.
filter+='-CudaPooledConvolution.AgreesWhenTimedAndInTf32'
while [ $# -gt 0 ]; do
  case "$1" in
    --repeats | --trainings | --filter | --busy | --out) [ $# -gt 1 ] || usage; declare "${1#--}=$2"; shift ;;
    -*) usage ;;
    *) [ -z "$folder" ] || usage; folder=$1 ;;
  esac
  shift
done
[ -n "$folder" ] || usage
for option in repeats trainings; do
  [[ ${!option} =~ ^[1-9][0-9]*$ ]] || wrong "expected a whole number for --$option, got '${!option}'."
done
[ -d "$folder" ] || wrong "no build folder at '$folder'."
folder=$(realpath -- "$folder") source=$(realpath -- "$(dirname -- "$0")/..")
mkdir -p "${out:=$folder/shared_gpu}" && out=$(realpath -- "$out") || exit 2
rm -rf "$out"/*.log "$out"/runs "$out"/images "$out"/waves
mkdir -p "$out/runs" || exit 2
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} XDG_CACHE_HOME=$out/cache

# The second process. Each start of it is a line of busy.log, so that one that ends at once is noticed.
step=$folder/bench/bench_step
[ -n "$busy" ] || [ -x "$step" ] || wrong "no $step: configure with -DWHISKER_BENCH=ON, or name a --busy command."
keep_busy() {
  trap 'kill -- -$! 2>/dev/null; wait $!; exit' TERM
  local commands=("$busy") i=0
  [ -n "$busy" ] || commands=("'$step' resnet18 --device cuda --batch 128 --precision bf16 --groups 400"
    "'$step' lstm --device cuda --precision bf16 --groups 2000" "'$step' mlp --device cuda --groups 20000")
  while :; do
    echo "start ${commands[i]}"
    setsid bash -c "exec ${commands[i]}" </dev/null &
    wait $! || { echo "ended with exit code $?"; exit 1; }
    i=$(((i + 1) % ${#commands[@]}))
  done
}
beside=""
start_busy() {
  keep_busy >>"$out/busy.log" 2>&1 &
  beside=$!
}
stop_busy() {
  [ -z "$beside" ] || { kill "$beside" 2>/dev/null && wait "$beside" 2>/dev/null; }
  beside=""
}
trap stop_busy EXIT
trap 'exit 130' INT TERM
bad=0
is_busy() {
  sleep 0.5  # its end may not be written yet
  kill -0 "$beside" 2>/dev/null && ! grep -q '^ended' "$out/busy.log" && return
  echo "Nothing ran beside it: $(tail -n 1 "$out/busy.log")"
  bad=1
}

# train NAME NUMBER: a short deterministic training of bf16, captured as long as nothing says otherwise; prints the
# hash of its weights.
train() {
  local name=$1 run=$out/runs/$1-$2
  mkdir -p "$run" || return 1
  local words=(device=cuda deterministic=true precision=bf16 seed=1 train.batch_size=16)
  if [ "$name" = resnet ]; then
    words=("$source/configs/cats_vs_dogs_gpu.yaml" "${words[@]}" model=small_resnet "data.train=$out/images/train"
      "data.val=$out/images/val" train.epochs=3)
  else
    words=("$source/configs/keras_lstm.yaml" "${words[@]}" "data.train=$out/waves/train.csv" "data.val=$out/waves/val.csv"
      train.epochs=3)
  fi
  (cd "$run" && "$folder/whisker" train "${words[@]}") >"$run/said" 2>&1 || { cat "$run/said" >&2; return 1; }
  find "$run" -name 'model-*.safetensors' -exec sha256sum {} + | sort | sed 's/ .*//' | tr '\n' ' '
}

"$folder/whisker" data generate "$out/images" --per-class 160 --val-per-class 16 --seed 7 >/dev/null &&
  "$folder/whisker" data generate "$out/waves" --waves --per-class 160 --val-per-class 16 --seed 7 >/dev/null || exit 1
declare -A alone
for name in resnet lstm; do
  alone[$name]=$(train "$name" alone) && [ -n "${alone[$name]}" ] || { echo "training $name did not run alone"; exit 1; }
done

# Each prints its line and returns 1 where something failed or differed.
repeat_tests() {
  local program=$1 log=$out/${1##*/}.log status passed failed done
  (cd "$folder/tests/${program%/*}" && "./${program##*/}" "--gtest_filter=$filter" "--gtest_repeat=$repeats" \
    --gtest_brief=1) >"$log" 2>&1
  status=$?
  passed=$(grep -oE '^\[  PASSED  \] [0-9]+' "$log" | awk '{n += $4} END {print n + 0}')
  failed=$(grep -cE '^\[  FAILED  \] .*\(' "$log")
  done=$(grep -c '^\[==========\]' "$log")
  printf '%-32s %d of %d repetitions, %d tests passed, %d failed\n' "${program##*/}" "$done" "$repeats" "$passed" "$failed"
  grep -hoE '^\[  FAILED  \] [^ ,]+' "$log" | sort | uniq -c | sed 's/^/  /'
  [ "$status" -eq 0 ] && [ "$done" -eq "$repeats" ] && [ "$passed" -gt 0 ]
}
repeat_training() {
  local name=$1 same=0 hash i
  for ((i = 1; i <= trainings; ++i)); do
    hash=$(train "$name" "$i") && [ "$hash" = "${alone[$name]}" ] && same=$((same + 1)) && rm -rf "$out/runs/$name-$i"
  done
  printf '%-32s %d of %d trainings with the bits of the one alone\n' "$name" "$same" "$trainings"
  [ "$same" -eq "$trainings" ]
}

# All at once: they share the GPU with each other, too.
start_busy
parts=()
for program in core/whisker_core_cuda_tests core/whisker_core_cuda_few_channels_tests core/whisker_core_op_tests; do
  repeat_tests "$program" & parts+=($!)
done
for name in resnet lstm; do
  repeat_training "$name" & parts+=($!)
done
for part in "${parts[@]}"; do wait "$part" || bad=1; done
is_busy
exit $bad
