#!/usr/bin/env bash
# Everything about several ranks on a machine with a GPU: NCCL in one process, ranks (one on each GPU, else two on one),
# links and bandwidth of all GPUs.
#   scripts/nccl_test.sh BUILD_FOLDER [FOLDER_OF_LIBNCCL]
# Without the second argument libnccl.so.2 is taken from the loader's path, else from a Python package. Each part says
# what it found, and goes on after one that failed. Exit code 1 when one failed, 2 for a wrong call.
set -uo pipefail
[ $# -ge 1 ] && [ -x "$1/whisker" ] || { sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
build=$(realpath -- "$1") source=$(realpath -- "$(dirname -- "$0")/..")
folder=${2:-}
if [ -z "$folder" ] && ! ldconfig -p 2>/dev/null | grep -q 'libnccl\.so\.2'; then
  folder=$(python3 -c 'import importlib.util as u; print(list(u.find_spec("nvidia.nccl").submodule_search_locations)[0])' \
    2>/dev/null)/lib
fi
[ -z "$folder" ] || export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$build/test_cache} OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
export WHISKER=$build/whisker PYTHONUNBUFFERED=1
[ ! -x "$build/tests/train/whisker_rank_steps" ] || export WHISKER_RANK_STEPS=$build/tests/train/whisker_rank_steps
failed=()

# part NAME SECONDS COMMAND...
part() {
  local name=$1 seconds=$2 status
  shift 2
  echo "== $name"
  timeout --kill-after=5 "$seconds" "$@" 2>&1
  status=$?
  [ $status -eq 0 ] && echo "== $name: ok" && return
  echo "== $name: FAILED with $status"
  failed+=("$name")
}
# tests PROGRAM FILTER: where that program was built
tests() {
  local program=$build/tests/$1
  [ -x "$program" ] || { echo "== $1: not built, left out"; return; }
  part "$1 $2" 90 "$program" --gtest_print_time=1 "--gtest_filter=$2"
}

nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv 2>&1
nvidia-smi topo -m 2>&1 | head -20
python3 - <<'PYTHON'
import ctypes
try:
    library, version = ctypes.CDLL("libnccl.so.2"), ctypes.c_int()
    library.ncclGetVersion(ctypes.byref(version))
    path = [line.split()[-1] for line in open("/proc/self/maps") if "libnccl" in line][0]
    print("NCCL", version.value, path)
except OSError as error:
    print("NCCL cannot be opened:", error)
PYTHON
tests core/whisker_core_communicator_tests 'NcclOfOne*:RankWatch*'
part "ranks" 380 python3 "$source/tests/apps/nccl_test.py" Nccl -v
tests core/whisker_core_op_tests 'SyncedBatchNorm*'
tests core/whisker_core_tape_tests 'Backward*'
tests train/whisker_train_run_tests 'GradientSum*:TrainStep*'
[ "$(nvidia-smi -L 2>/dev/null | wc -l)" -lt 2 ] || part "all GPUs" 120 "$WHISKER" devices --check --gpus all
echo
[ ${#failed[@]} -eq 0 ] && echo "All parts passed." && exit 0
printf 'FAILED: %s\n' "${failed[@]}"
exit 1
