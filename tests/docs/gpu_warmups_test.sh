#!/usr/bin/env bash
# Builds the GPU warm-ups, runs them with small sizes and reads what they print.
#   gpu_warmups_test.sh SOURCE [--cpu]     with --cpu as C++, else with nvcc; without a GPU that runs the CPU halves, too
set -euo pipefail
source=$1 mode=${2:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "gpu_warmups_test.sh: $1"; cat output; exit 1; }

WARNINGS="-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror" OMP_NUM_THREADS=2 \
  "$source/docs/course/gpu/run_all.sh" --small $mode >output 2>&1 || fail "a program failed"
for file in "$source"/docs/course/gpu/*.cu; do
  program=$(basename "$file" .cu)
  title=$(sed -n 's/.*Program program("\([^"]*\)".*/\1/p' "$file")
  grep -qx "## $title" output || fail "$program printed nothing"
  [ "$(head -n 1 "$source/docs/course/gpu/$program.md")" = "# $title" ] || fail "$program.md is missing, or has another title"
  grep -q "($program.md)" "$source/docs/course/gpu/README.md" || fail "README.md does not name $program.md"
done
programs=$(ls "$source"/docs/course/gpu/*.cu | wc -l)
[ "$(grep -c '| plain loop\|^| number |' output)" -ge "$programs" ] || fail "a CPU half is missing"
! grep -q WRONG output || fail "a result is wrong"
grep -q '= \[8 10 12 14 16 18\]' output || fail "the first sum is missing"
if [ "$mode" = --cpu ]; then
  [ "$(grep -c '^Compiled without CUDA: the rows of the GPU are missing' output)" = "$programs" ] || fail "it is not said that the GPU is missing"
elif ! nvidia-smi >/dev/null 2>&1; then
  [ "$(grep -c '^No GPU (.*): the rows of the GPU are missing' output)" = "$programs" ] || fail "it is not said that there is no GPU"
fi
if grep -q 'mandelbrot.png is written' output; then
  # Width and height of the header: 160 and 120.
  [ "$(od -An -tx1 -j16 -N8 mandelbrot.png | tr -d ' ')" = 000000a000000078 ] || fail "mandelbrot.png is no such image"
fi
for level in "$source"/docs/course/gpu/matrix_product/*.cuh; do
  [ "$(wc -l <"$level")" -le 160 ] || fail "$level has more than 160 lines"
done
