#!/usr/bin/env bash
# Compiles the device code of every kernel for architectures beside those of a build: no host code and little
# optimisation, enough to find what only they reject. Needs the CUDA toolkit, no GPU.
#   scripts/compile_kernels.sh NVCC ARCHITECTURE...     compute capabilities, as in: 75 120
# Exit code 1 when something does not compile; the errors are printed.
set -euo pipefail
nvcc=$1; shift
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

compile() {  # ARCHITECTURE SOURCE
  "$nvcc" -cubin -arch="sm_$1" -std=c++20 --expt-relaxed-constexpr -Werror=all-warnings -DNDEBUG -I. \
    -DFMT_USE_CONSTEXPR=1 -Xcicc -O1 -Xptxas -O0 "$2" -o "$scratch/$1.${2##*/}" || { echo "FAILED: $2 for sm_$1"; return 1; }
}
export -f compile
export nvcc scratch
known=$("$nvcc" --list-gpu-code)
for architecture; do
  if grep -qx "sm_$architecture" <<<"$known"; then
    find core/cuda -name '*.cu' -printf "$architecture %p\n"
  else
    echo "$nvcc knows no sm_$architecture: left out" >&2
  fi
done |
  xargs -P "$(nproc)" -L 1 bash -c 'compile "$@"' compile || exit 1
