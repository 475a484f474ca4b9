#!/usr/bin/env bash
# What scripts/find_cuda.sh says of toolkits that are whole, too old or not there.
#   find_cuda_test.sh SOURCE
set -euo pipefail
source=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/include"

expect() {  # the exit code, and a part of what is said
  local status=0 said
  said=$(CUDACXX="$scratch/bin/nvcc" "$source/scripts/find_cuda.sh") || status=$?
  if [ "$status" -ne "$1" ] || [[ "$said" != *"$2"* ]]; then
    echo "FAILED: expected $1 and '$2', got $status and '$said'"
    exit 1
  fi
}
cudnn() { printf '#define CUDNN_MAJOR %s\n#define CUDNN_MINOR %s\n#define CUDNN_PATCHLEVEL 0\n' "$@" \
  >"$scratch/include/cudnn_version.h"; }

expect 1 "no nvcc"
printf '#!/bin/sh\n' >"$scratch/bin/nvcc"
chmod +x "$scratch/bin/nvcc"
cudnn 9 13
expect 1 "cuDNN 9.13, which is older than 9.14"
cudnn 8 9
expect 1 "cuDNN 8.9"
cudnn 9 14
expect 0 ""
cudnn 10 0
expect 0 ""
echo "toolkits are told apart"
