#!/usr/bin/env bash
# Is there what the CUDA backend is built with: nvcc, and cuDNN 9's headers?
#   scripts/find_cuda.sh      exit code 0, or 1 with one line on what is missing
set -euo pipefail

nvcc=${CUDACXX:-$(command -v nvcc || true)}
[ -n "$nvcc" ] || nvcc=${CUDA_PATH:-/usr/local/cuda}/bin/nvcc
if [ ! -x "$nvcc" ]; then
  echo "no nvcc (CUDA toolkit)"
  exit 1
fi
for folder in "$(dirname "$nvcc")/../include" /usr/include "/usr/include/$(uname -m)-linux-gnu"; do
  [ -f "$folder/cudnn_version_v9.h" ] || [ -f "$folder/cudnn_version.h" ] || continue
  exit 0
done
echo "no cuDNN headers (cudnn_version.h) beside $nvcc"
exit 1
