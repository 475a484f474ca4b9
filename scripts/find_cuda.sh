#!/usr/bin/env bash
# Is there what the CUDA backend is built with: nvcc, and headers of cuDNN 9.14 or newer?
#   scripts/find_cuda.sh      exit code 0, or 1 with one line on what is missing
set -euo pipefail

nvcc=${CUDACXX:-$(command -v nvcc || true)}
[ -n "$nvcc" ] || nvcc=${CUDA_PATH:-/usr/local/cuda}/bin/nvcc
if [ ! -x "$nvcc" ]; then
  echo "no nvcc (CUDA toolkit)"
  exit 1
fi
for folder in "$(dirname "$nvcc")/../include" /usr/include "/usr/include/$(uname -m)-linux-gnu"; do
  for header in "$folder/cudnn_version_v9.h" "$folder/cudnn_version.h"; do
    [ -f "$header" ] || continue
    number() { sed -n "s/^#define CUDNN_$1 \([0-9]*\).*/\1/p" "$header"; }
    major=$(number MAJOR) minor=$(number MINOR)
    [ "$((100 * ${major:-0} + ${minor:-0}))" -lt 914 ] || exit 0
    echo "cuDNN ${major:-?}.${minor:-?}, which is older than 9.14 ($header)"
    exit 1
  done
done
echo "no cuDNN headers (cudnn_version.h) beside $nvcc"
exit 1
