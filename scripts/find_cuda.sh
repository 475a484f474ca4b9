#!/usr/bin/env bash
# Is there what the CUDA backend is built with: nvcc, and headers of cuDNN 9.14 or newer? What is found is
# printed; else one line on what is missing, with exit code 1. CMake asks here, too.
#   scripts/find_cuda.sh                 for both: nvcc's path
#   scripts/find_cuda.sh nvcc            nvcc's path
#   scripts/find_cuda.sh cudnn FOLDER    cuDNN's headers in this folder: their version
# nvcc is $CUDACXX, a path or a name on PATH; without it the first of those in $CUDA_PATH, on PATH, in
# /usr/local/cuda and, the newest first, in /usr/local/cuda-* (the order of CMake's FindCUDAToolkit).
# WHISKER_SYSTEM_ROOT is for tests: the folder in which /usr is looked for.
set -euo pipefail
usr=${WHISKER_SYSTEM_ROOT:-}/usr

find_nvcc() {
  local candidates=() candidate nvcc="" target
  if [ -n "${CUDACXX:-}" ]; then
    candidates=("$CUDACXX")
  else
    [ -z "${CUDA_PATH:-}" ] || candidates=("$CUDA_PATH/bin/nvcc")
    candidates+=(nvcc "$usr/local/cuda/bin/nvcc")
    while IFS= read -r candidate; do
      candidates+=("$candidate/bin/nvcc")
    done < <(printf '%s\n' "$usr"/local/cuda-* | sort -rV)
  fi
  for candidate in "${candidates[@]}"; do
    nvcc=$(type -P -- "$candidate") && [ -x "$nvcc" ] && [ -f "$nvcc" ] && break
    nvcc=""
  done
  if [ -z "$nvcc" ]; then
    echo "no nvcc (CUDA toolkit)${CUDACXX:+ at $CUDACXX}"
    return 1
  fi
  # Started through a link, nvcc looks for its toolkit beside that. A link to another name is a wrapper's.
  target=$(realpath -- "$nvcc")
  if [ -L "$nvcc" ] && [ "${target##*/}" = nvcc ]; then nvcc=$target; fi
  realpath -s -- "$nvcc"
}

# Versions are in cudnn_version.h, which cudnn.h includes; before cuDNN 8 in cudnn.h itself.
check_cudnn() {
  local header=$1/cudnn_version.h major minor
  [ -f "$header" ] || header=$1/cudnn.h
  if [ ! -f "$1/cudnn.h" ]; then
    echo "no cuDNN headers (cudnn.h) in $1"
    return 1
  fi
  number() { sed -n "s/^#define CUDNN_$1 \([0-9]*\).*/\1/p" "$header"; }
  major=$(number MAJOR) minor=$(number MINOR)
  if [ "$((100 * ${major:-0} + ${minor:-0}))" -lt 914 ]; then
    echo "cuDNN ${major:-?}.${minor:-?}, which is older than 9.14 ($header)"
    return 1
  fi
  echo "$major.$minor"
}

case "${1:-}" in
  nvcc) find_nvcc; exit ;;
  cudnn) check_cudnn "$2"; exit ;;
esac
if ! nvcc=$(find_nvcc); then
  echo "$nvcc"
  exit 1
fi
# Where CMake looks: the first cudnn.h is the compiler's.
for folder in "$(dirname -- "$nvcc")/../include" "$usr/local/include" "$usr/include/$(uname -m)-linux-gnu" "$usr/include"; do
  [ -f "$folder/cudnn.h" ] || continue
  if ! said=$(check_cudnn "$folder"); then
    echo "$said"
    exit 1
  fi
  echo "$nvcc"
  exit 0
done
echo "no cuDNN headers (cudnn.h) beside $nvcc"
exit 1
