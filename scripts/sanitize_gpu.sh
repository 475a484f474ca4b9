#!/usr/bin/env bash
# Runs the tests that use a GPU under compute-sanitizer, several processes at a time.
#   scripts/sanitize_gpu.sh BUILD_FOLDER [TOOL...]    of memcheck, synccheck, racecheck, initcheck; else all four
#     --jobs N        processes at a time, each with a share of a program's tests (4)
#     --limit S       seconds that each of them may take (600)
#     --filter F      GoogleTest's filter (*)
#     --out FOLDER    where the logs go, one for each process (BUILD_FOLDER/sanitizer)
# One line per tool and program, below it what did not finish: a test in which the tool breaks or the limit passes;
# those behind it run in another process. Exit code 1 when there is a finding, a failed test, something that did not
# finish, or nothing that used a GPU; 2 for a wrong call.
set -ufo pipefail  # -f: patterns are of tests, not of files

. "$(dirname "$0")/gpu_test_programs.sh"

# What a tool cannot do: TOOL|PATTERNS|OPTION. Tests of these patterns run apart, with this option of the tool or this
# VARIABLE=VALUE in their environment; without either they are left out; "none" is for tests that a later rule would
# leave out. The first rule that fits a test counts.
limits=(
  # It breaks a kernel on purpose: the finding is the test.
  "memcheck synccheck racecheck initcheck|CudaLost.*|"
  # It takes all of the GPU's memory, which the tool and the other processes need.
  "memcheck synccheck racecheck initcheck|CudaMemoryShortage.OfTheDriver*|"
  # They start the test program once more to see what it opens; under the tools that does not end.
  "memcheck synccheck racecheck initcheck|DeviceStart.*|"
  # They look at the memory of the process or of others, of which the tool takes some.
  "memcheck synccheck racecheck initcheck|SoakOn.* CudaMemory.TheSummaryAddsUp|"
  "memcheck synccheck racecheck initcheck|LargeShapes.OnTheCpu*|"
  # The tool ends with an internal error of its own ("failed to handle a hardware exception") in kernels of cuDNN and
  # cuBLASLt, also when told to look at no kernel: so in most trainings. Tests named WithoutLibraries run own ones only.
  "racecheck|*WithoutLibraries*|none"
  "racecheck|CudaConvolution.* CudaPooledConvolution.* OpTable.OnCuda/conv2d*|"
  "racecheck|LargeShapes.OnCuda/conv2d* LargeShapes.OnCuda/matmul LargeShapes.OnCuda/linear LargeShapes.OnCuda/recurrent*|"
  "racecheck|NaN.*Convolution* NaN.InAFilterOrABias* NaNGradient.EndsWhereAFusedRelu*|"
  "racecheck|CudaMemoryShortage*.* CudaPersistentRecurrent.* CudaRecurrentLengths.ByPersistentKernels|"
  "racecheck|Recurrent.PaddingIsNeverRead CudaSequenceTraining.* SequenceTraining.AGpus* TrainingAlgorithms.*|"
  "racecheck|LayerTypesOn.* MemoryPredictionOn.* CudaGemm.AgreeWithTheReference CudaGemm.AgreeWithTheReferenceWhenTimed|"
  "racecheck|CudaRecurrent*.InSixteenBits BenchmarkOn.CeilingsAreMeasured*|"
  # It loses track of launches by nvJPEG.
  "racecheck|GpuDecodeCuda.*|"
  # They take it more than 350 seconds.
  "racecheck|CudaCapture.AThousandSteps* CudaTraining.CapturedRuns* CudaTraining.FindsABatch*|"
  "racecheck|CudaTraining.EveryAllocation*|"
  # It takes more than four minutes over one large product of cuBLASLt's.
  "synccheck|BenchmarkOn.CeilingsAreMeasured*|"
  # They provoke errors of the CUDA API, which memcheck reports as well: waiting within a capture, a capture
  # that is broken off, more memory than there is.
  "memcheck|CudaCapture.AnErrorWhileCapturing*|--report-api-errors no"
  "memcheck|CudaMemory.AnExhaustedGpu* CudaMemoryShortage.EndsCaptures*|--report-api-errors no"
  # The tool looks at the copies of a captured graph before any of it has run, and so reports those whose source
  # a kernel of the same graph writes. What kernels read is still looked at.
  "initcheck|CudaCapture.* CudaMemory.AReserveServes*|--check-api-memory-access no"
  "initcheck|CudaRecurrent.ACapturedStep* CudaRecurrentLengths.*|--check-api-memory-access no"
  # It seems not to see what some kernels of cuDNN, cuBLASLt and nvJPEG write, and reports whoever reads it, in tests
  # whose values are those of the reference. Fresh memory holds NaN in these tests (tests/support/poisoned_memory.h; not
  # where they set memory options), so that what nobody wrote would show in their values. Left out is what reported a
  # kernel; some reported copies alone.
  "initcheck|CudaConvolution.*Timed CudaConvolution.Follows* CudaConvolution.Gradients* CudaConvolution.Keeps*|"
  "initcheck|CudaPersistentRecurrent.A* CudaPersistentRecurrent.Over*|"
  "initcheck|NaN.InAnImage* NaN.InAFilterOrABias* NaNGradient.EndsWhereAFusedRelu*|"
  "initcheck|CudaSequenceTraining.* SequenceTraining.AGpus* CudaTraining.CapturedRuns* TorchvisionOn.Squeezenets*|"
  "initcheck|GpuDecodeCuda.*|"
  "initcheck|CudaConvolution.*Tf32 CudaRecurrent.WithAProjection RecurrentTraces.*|--check-api-memory-access no"
  # These kernels run on the default stream, in memory that was poisoned on another before. Under the tool the poison
  # overwrites what they wrote in up to two of five cases, although the host waited for it and the device before it
  # launched them: sums of a kernel are found as poison by the next. Not where launches wait, nor under any other tool.
  "initcheck|CudaFewChannelsConv.*|CUDA_LAUNCH_BLOCKING=1"
  # Fused and unfused layers are timed as captured work.
  "initcheck|CudaMemoryShortage*.* Fused.* Fusion.*|--check-api-memory-access no"
  "initcheck|*On.*/cuda_0 CudaTraining.*|--check-api-memory-access no"
)

usage() { sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
wrong() { echo "sanitize_gpu.sh: $*" >&2; exit 2; }

folder="" tools=() jobs=4 limit=600 filter='*' out=""
while [ $# -gt 0 ]; do
  case "$1" in
    --jobs | --limit | --filter | --out) [ $# -gt 1 ] || usage; declare "${1#--}=$2"; shift ;;
    memcheck | synccheck | racecheck | initcheck) tools+=("$1") ;;
    -*) usage ;;
    *) [ -z "$folder" ] || usage; folder=$1 ;;
  esac
  shift
done
[ -n "$folder" ] || usage
[[ $jobs =~ ^[1-9][0-9]*$ && $limit =~ ^[1-9][0-9]*$ ]] ||
  wrong "expected whole numbers for --jobs and --limit, got '$jobs' and '$limit'."
[ ${#tools[@]} -gt 0 ] || tools=(memcheck synccheck racecheck initcheck)
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin type -P compute-sanitizer) ||
  wrong "no compute-sanitizer on PATH or in /usr/local/cuda/bin. It is a part of the CUDA toolkit."
[ -d "$folder" ] || wrong "no build folder at '$folder'."
folder=$(realpath -- "$folder")
mkdir -p "${out:=$folder/sanitizer}" && out=$(realpath -- "$out") || exit 2
find "$out" -maxdepth 1 \( -name '*check.whisker_*.log' -o -name summary.txt \) -delete
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} XDG_CACHE_HOME=$out/cache

# The work: queue[] holds "LINE|LOG|PROGRAM|OPTION|SHARD|SHARDS|TESTS", a LINE is "TOOL PROGRAM".
queue=()
declare -A unended=() left_out=() logs_of=()  # by line

fits() {  # TEST PATTERN...
  local test=$1 pattern; shift
  for pattern; do [[ $test == $pattern ]] && return 0; done
  return 1
}

plan() {  # TOOL PROGRAM PATTERN...
  local tool=$1 program=$2 line suite="" test name option rule for_tools patterns what listed; shift 2
  line="$tool ${program##*/}"
  unended[$line]=0 left_out[$line]=0 logs_of[$line]=""
  listed=$(cd "${program%/*}" && "$program" --gtest_list_tests "--gtest_filter=$filter") ||
    wrong "$program does not list its tests."
  local -A of_option=()  # the tests' names
  while IFS= read -r name; do
    name=${name%%  #*}
    case "$name" in
      "  "*) test=$suite${name#  } ;;
      *.) suite=$name; continue ;;
      *) continue ;;
    esac
    fits "$test" "$@" || continue
    option=none
    for rule in "${limits[@]}"; do
      IFS='|' read -r for_tools patterns what <<<"$rule"
      [[ " $for_tools " == *" $tool "* ]] && fits "$test" $patterns || continue
      option=${what:-left out}
      break
    done
    if [ "$option" = "left out" ]; then
      left_out[$line]=$((left_out[$line] + 1))
    else
      of_option[$option]+=":$test"
    fi
  done <<<"$listed"
  for option in "${!of_option[@]}"; do
    local names=${of_option[$option]#:} shards apart="" shard log
    shards=$(tr ':' '\n' <<<"$names" | wc -l)
    [ "$shards" -le "$jobs" ] || shards=$jobs
    if [ "$option" = none ]; then option=""; else apart=.${option//[^a-zA-Z]/}; fi
    for ((shard = 0; shard < shards; shard++)); do
      log=$tool.${program##*/}$apart.$shard.log
      queue+=("$line|$log|$program|$option|$shard|$shards|$names")
      logs_of[$line]+=" $log"
      unended[$line]=$((unended[$line] + 1))
    done
  done
}

declare -A code_of=() job_of=() given_back=()  # by log
declare -A log_of=() line_of=()                # by process
continued=0

start() {  # what the queue holds
  local line log program option shard shards tests tool
  IFS='|' read -r line log program option shard shards tests <<<"$1"
  tool=${line% *}
  # Tests fail and processes end as tests want; that a shard may have nothing for the GPU is no error either.
  local options=(--tool "$tool" --check-exit-code no --require-cuda-init no --max-connections $((jobs + 10)))
  [ "$tool" != racecheck ] || options+=(--kernel-name kns=whisker)  # the libraries' kernels are not ours to mend
  local setting=""
  [[ ! $option =~ ^[A-Z_]+= ]] || { setting=$option; option=""; }
  cd "${program%/*}" || exit
  env GTEST_SHARD_INDEX="$shard" GTEST_TOTAL_SHARDS="$shards" $setting timeout -k 10 "$limit" \
    "$sanitizer" "${options[@]}" $option "$program" "--gtest_filter=$tests" >"$out/$log" 2>&1 &
  log_of[$!]=$log line_of[$!]=$line job_of[$log]=$1
  cd "$OLDPWD" || exit
}

say() { printf "$@" | tee -a "$out/summary.txt"; }
count() { grep -cE "$1" "$2"; }
total_bad=0 used_gpu=0

# What one log holds is added to passed, failed, skipped and findings; why it is not whole is told.
read_log() {
  local log=$out/$1 code=${code_of[$1]} wanted ok bad skip found told why="" last
  wanted=$(sed -nE 's/^\[==========\] Running ([0-9]+) tests? from .*/\1/p' "$log" | head -n 1)
  ok=$(count '^\[       OK \]' "$log") bad=$(count '^\[  FAILED  \] .* \([0-9]+ ms\)$' "$log")
  skip=$(count '^\[  SKIPPED \] .* \([0-9]+ ms\)$' "$log")
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
  told=$(sed -nE 's/^=+ (ERROR|RACECHECK) SUMMARY: ([0-9]+) (errors?|hazards?)( displayed.*)?$/\2/p' "$log")
  if [ -n "$told" ]; then
    used_gpu=1
    for found in $told; do findings=$((findings + found)); done
  else  # ended before its summary: each report begins with a line that is not indented
    found=$(grep -E '^=+ [^ ]' "$log" |
      grep -cvE 'COMPUTE-SANITIZER|SUMMARY|[Ii]nternal|Target application|process did')
    findings=$((findings + found))
    grep -q 'before first instrumented API call' "$log" || why="no summary of the tool"
  fi
  last=$(sed -nE 's/^\[ RUN      \] (.*)/\1/p' "$log" | tail -n 1)
  [ "$((ok + bad + skip))" -eq "${wanted:--1}" ] || why="ended with code $code"
  ! grep -qE '^=+ .*[Ii]nternal .*[Ee]rror' "$log" || why="internal error of the tool"
  [ "$code" -ne 124 ] && [ "$code" -ne 137 ] || why="over the limit of $limit s"
  [ -z "$why" ] || [ -n "${given_back[$1]:-}" ] ||
    unfinished+=("$1: $why${last:+ in $last}, $((ok + bad + skip)) of ${wanted:-?} tests done")
}

report() {  # LINE
  local passed=0 failed=0 skipped=0 findings=0 unfinished=() log what="errors"
  for log in ${logs_of[$1]}; do read_log "$log"; done
  [[ $1 != racecheck* ]] || what=hazards
  say '%-9s %-31s %d passed, %d failed, %d skipped, %d left out; %d %s; %d unfinished\n' "${1% *}" "${1#* }" \
    "$passed" "$failed" "$skipped" "${left_out[$1]}" "$findings" "$what" "${#unfinished[@]}"
  [ ${#unfinished[@]} -eq 0 ] || say '          %s\n' "${unfinished[@]}"
  total_bad=$((total_bad + failed + findings + ${#unfinished[@]}))
}

# Where the tool broke or the limit passed, the log ends there, and the tests behind that one are queued again: after
# an error of the tool no kernel of that process is right. So is the one that the limit met, unless it had all of it.
go_on() {  # LOG
  local log=$1 at met first="" line program option shard shards tests rest="" seen="" i
  at=$(grep -nE -m 1 '^=+ .*[Ii]nternal .*[Ee]rror' "$out/$log" | cut -d: -f1)
  if [ -n "$at" ]; then
    used_gpu=1
  elif [ "${code_of[$log]}" -eq 124 ] || [ "${code_of[$log]}" -eq 137 ]; then
    at=$(wc -l <"$out/$log")
    first=$(sed -nE 's/^\[ RUN      \] (.*)/\1/p' "$out/$log" | head -n 1)
  else
    return 0
  fi
  met=$(head -n "$at" "$out/$log" | sed -nE 's/^\[ RUN      \] (.*)/\1/p' | tail -n 1)
  [ -n "$met" ] || return 0
  sed -i "$((at + 1)),\$d" "$out/$log"
  IFS='|' read -r line _ program option shard shards tests <<<"${job_of[$log]}"
  IFS=: read -r -a tests <<<"$tests"
  for ((i = shard; i < ${#tests[@]}; i += shards)); do
    if [ "${tests[i]}" = "$met" ]; then
      seen=1
      [ -z "$first" ] || [ "$first" = "$met" ] || { rest+=":$met"; given_back[$log]=1; }
    elif [ -n "$seen" ]; then
      rest+=":${tests[i]}"
    fi
  done
  [ -n "$rest" ] || return 0
  continued=$((continued + 1))
  log=${log%.*}.$continued.log
  queue+=("$line|$log|$program|$option|0|1|${rest#:}")
  logs_of[$line]+=" $log" unended[$line]=$((unended[$line] + 1))
}

reap() {  # waits for one process; its line is printed when it was the last one of that
  local pid code line
  wait -n -p pid; code=$?
  line=${line_of[$pid]}
  code_of[${log_of[$pid]}]=$code
  go_on "${log_of[$pid]}"
  running=$((running - 1)) unended[$line]=$((unended[$line] - 1))
  [ "${unended[$line]}" -gt 0 ] || report "$line"
}

main() {
  local root commit tool entry program line next=0 running=0
  root=$(cd "$(dirname "$0")/.." && pwd)
  commit=$(git -C "$root" describe --always --dirty=+changes --abbrev=8 2>/dev/null) || commit=unknown
  say '%s\n' "commit $commit: ${tools[*]} over $folder, $jobs processes, $limit s each, filter $filter"
  for tool in "${tools[@]}"; do
    for entry in "${gpu_test_programs[@]}"; do
      program=$folder/tests/${entry%%|*}
      [ -x "$program" ] || wrong "no test program $program. Build with WHISKER_CUDA and WHISKER_TESTS on."
      plan "$tool" "$program" ${entry#*|}
      line="$tool ${program##*/}"
      [ "${unended[$line]}" -gt 0 ] || [ "${left_out[$line]}" -eq 0 ] || report "$line"
    done
  done
  trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM
  while [ "$next" -lt "${#queue[@]}" ] || [ "$running" -gt 0 ]; do
    if [ "$next" -lt "${#queue[@]}" ] && [ "$running" -lt "$jobs" ]; then
      start "${queue[next]}"
      next=$((next + 1)) running=$((running + 1))
    else
      reap
    fi
  done
  [ "$used_gpu" -eq 1 ] || say '%s\n' "Nothing used a GPU: see the logs in $out."
  [ "$total_bad" -eq 0 ] && [ "$used_gpu" -eq 1 ]
}

main
