#!/usr/bin/env bash
# What scripts/find_cuda.sh, and CMake by it, say of toolkits that are whole, too old or not there, and
# which of several they take.
#   find_cuda_test.sh SOURCE
set -euo pipefail
source=$1
scratch=$(realpath "$(mktemp -d)")
trap 'rm -rf "$scratch"' EXIT
unset CUDACXX CUDA_PATH
export WHISKER_SYSTEM_ROOT=$scratch/system  # not this machine's toolkit

toolkit() {  # a folder with an nvcc in it
  mkdir -p "$scratch/$1/bin" "$scratch/$1/include"
  printf '#!/bin/sh\n' >"$scratch/$1/bin/nvcc"
  chmod +x "$scratch/$1/bin/nvcc"
}
cudnn() {  # beside that nvcc, of this version
  mkdir -p "$scratch/$1/include"
  touch "$scratch/$1/include/cudnn.h"
  printf '#define CUDNN_MAJOR %s\n#define CUDNN_MINOR %s\n#define CUDNN_PATCHLEVEL 0\n' "$2" "$3" \
    >"$scratch/$1/include/cudnn_version.h"
}
expect() {  # exit code and text of the script with these variables
  local wanted=$1 text=$2 status=0 said; shift 2
  said=$(env "$@" "$source/scripts/find_cuda.sh") || status=$?
  if [ "$status" -ne "$wanted" ] || [ "$said" != "$text" ]; then
    echo "FAILED with $*: expected $wanted and '$text', got $status and '$said'"
    exit 1
  fi
}

one=$scratch/one/bin/nvcc header=$scratch/one/bin/../include/cudnn_version.h
expect 1 "no nvcc (CUDA toolkit) at $one" CUDACXX="$one"
toolkit one
cudnn one 9 13
expect 1 "cuDNN 9.13, which is older than 9.14 ($header)" CUDACXX="$one"
cudnn one 9 14
expect 0 "$one" CUDACXX="$one"

# A name on PATH; a link from elsewhere.
expect 0 "$one" CUDACXX=nvcc PATH="$scratch/one/bin:$PATH"
mkdir -p "$scratch/links/bin" "$scratch/links/include"
ln -s "$one" "$scratch/links/bin/nvcc"
expect 0 "$one" PATH="$scratch/links/bin:$PATH"

# CUDACXX, then CUDA_PATH, then PATH.
for name in two three; do
  toolkit $name
  cudnn $name 9 14
done
path=$scratch/three/bin:$PATH
expect 0 "$one" CUDACXX="$one" CUDA_PATH="$scratch/two" PATH="$path"
expect 0 "$scratch/two/bin/nvcc" CUDACXX= CUDA_PATH="$scratch/two" PATH="$path"
expect 0 "$scratch/three/bin/nvcc" CUDA_PATH="$scratch/nowhere" PATH="$path"

# Toolkits in versioned folders, the newest first, unless a link says which; cuDNN in the system's folders.
bare=$scratch/bare
mkdir "$bare"
for tool in bash sed dirname realpath sort uname; do ln -s "$(type -P $tool)" "$bare/$tool"; done
versioned() { echo "$scratch/system/usr/local/cuda$1/bin/nvcc"; }
expect 1 "no nvcc (CUDA toolkit)" PATH="$bare"
for version in -12.9 -13.0 -9.2; do toolkit "system/usr/local/cuda$version"; done
expect 1 "no cuDNN headers (cudnn.h) beside $(versioned -13.0)" PATH="$bare"
cudnn "system/usr" 9 14
expect 0 "$(versioned -13.0)" PATH="$bare"
mkdir "$scratch/system/usr/include/$(uname -m)-linux-gnu"
mv "$scratch"/system/usr/include/cudnn*.h "$scratch/system/usr/include/$(uname -m)-linux-gnu"
expect 0 "$(versioned -13.0)" PATH="$bare"
ln -s cuda-12.9 "$scratch/system/usr/local/cuda"
expect 0 "$(versioned "")" PATH="$bare"

# CMake: the same nvcc, and one line on what is wrong before anything is compiled. A project of its own, so that
# libraries that have nothing to do with CUDA need not be there.
mkdir "$scratch/project"
ln -s "$source/scripts" "$scratch/project/scripts"
cat >"$scratch/project/CMakeLists.txt" <<PROJECT
cmake_minimum_required(VERSION 3.24)
project(FindCuda LANGUAGES CXX)
include("$source/cmake/WhiskerCuda.cmake")
PROJECT
configure() {  # that fails with this text, with these variables
  local text=$1 said; shift
  if said=$(env "$@" cmake -S "$scratch/project" -B "$scratch/build" -G Ninja 2>&1) ||
      [[ "$(tr -s ' \n' ' ' <<<"$said")" != *"WHISKER_CUDA is ON, but $text: needs nvcc and cuDNN 9.14 or newer."* ]]; then
    echo "FAILED with $*: expected '$text' of CMake, got $said"
    exit 1
  fi
}
cudnn one 9 13
configure "cuDNN 9.13, which is older than 9.14 ($scratch/one/include/cudnn_version.h)" \
  CUDACXX="$scratch/links/bin/nvcc" CUDA_PATH="$scratch/two" PATH="$path"
grep -qx "WHISKER_NVCC:FILEPATH=$one" "$scratch/build/CMakeCache.txt"

# What was found before stays, until it is gone.
configure "cuDNN 9.13, which is older than 9.14 ($scratch/one/include/cudnn_version.h)" CUDA_PATH="$scratch/two"
rm -r "$scratch/one"
configure "no nvcc (CUDA toolkit) at $scratch/nowhere" CUDACXX="$scratch/nowhere"
echo "toolkits are told apart"
