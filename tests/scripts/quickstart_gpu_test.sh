#!/usr/bin/env bash
# What ./quickstart configures with and without a GPU and a CUDA toolkit: it is run beside a cmake that writes
# down what it is given and builds nothing.
#   quickstart_gpu_test.sh SOURCE
set -euo pipefail
source=$1
scratch=$(realpath "$(mktemp -d)")
trap 'rm -rf "$scratch"' EXIT

tree=$scratch/tree
mkdir -p "$tree/scripts" "$scratch/bin"
cp "$source/quickstart" "$tree"
cp "$source/scripts/find_cuda.sh" "$tree/scripts"
printf '#!/bin/sh\n' >"$tree/scripts/install_packages.sh"
printf '#!/bin/sh\n[ "$1" != --build ] || exit 9\necho "$@" >"%s/configured"\n' "$scratch" >"$scratch/bin/cmake"
chmod +x "$tree/scripts/install_packages.sh" "$scratch/bin/cmake"

mkdir -p "$scratch/toolkit/bin" "$scratch/toolkit/include"
nvcc=$scratch/toolkit/bin/nvcc
printf '#!/bin/sh\n' >"$nvcc"
chmod +x "$nvcc"
touch "$scratch/toolkit/include/cudnn.h"
printf '#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 14\n' >"$scratch/toolkit/include/cudnn_version.h"

mkdir -p "$scratch/none" "$scratch/device/dev" "$scratch/driver/proc/driver/nvidia"
touch "$scratch/device/dev/nvidiactl" "$scratch/driver/proc/driver/nvidia/version"

# expect ROOT NVCC WORDS: what cmake is given where the system's files are below ROOT.
expect() {
  local status=0
  rm -f "$scratch/configured"
  env PATH="$scratch/bin:$PATH" WHISKER_SYSTEM_ROOT="$scratch/$1" CUDACXX="$2" "$tree/quickstart" \
    >"$scratch/said" 2>&1 || status=$?
  if [ "$status" -ne 1 ] || [ "$(cat "$scratch/configured")" != "$3" ]; then
    cat "$scratch/said"
    echo "FAILED with $1: expected '$3' and 1, got '$(cat "$scratch/configured")' and $status"
    exit 1
  fi
}

cpu="--preset release -DWHISKER_TESTS=OFF -DWHISKER_BENCH=OFF -DWHISKER_TOGETHER=ON"
gpu="$cpu -DWHISKER_CUDA=ON -DWHISKER_CUDA_ARCHITECTURES=native -DWHISKER_NVCC=$nvcc"
expect device "$nvcc" "$gpu"
expect driver "$nvcc" "$gpu"
expect none "$nvcc" "$cpu"
expect device "$scratch/nowhere" "$cpu"
text="There is a GPU, but no nvcc (CUDA toolkit) at $scratch/nowhere: building for the CPU only."
grep -qxF "$text" "$scratch/said" || { cat "$scratch/said"; echo "FAILED: expected '$text'"; exit 1; }

# A tree that was configured before keeps its settings; one line says so where these leave a GPU idle.
without="There is a GPU, but build/release was configured without CUDA and stays so. For the GPU, and then ./quickstart\
 again: cmake --preset release -DWHISKER_CUDA=ON -DWHISKER_CUDA_ARCHITECTURES=native"
mkdir -p "$tree/build/release"
for cache in ON OFF; do
  echo "WHISKER_CUDA:BOOL=$cache" >"$tree/build/release/CMakeCache.txt"
  expect device "$nvcc" "--preset release"
  [ "$(grep -cxF "$without" "$scratch/said")" -eq "$([ $cache = ON ]; echo $?)" ] ||
    { cat "$scratch/said"; echo "FAILED with $cache: '$without'"; exit 1; }
done
echo "quickstart builds the CUDA backend where a GPU and its toolkit are"
