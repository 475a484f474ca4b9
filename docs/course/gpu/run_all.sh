#!/usr/bin/env bash
# Builds the GPU warm-ups with nvcc, or as C++ where there is none, and runs them one after the other. Prints the tables
# of the pages, as Markdown; mandelbrot.png is written to this folder.
#   docs/course/gpu/run_all.sh [--small] [--cpu] [PROGRAM...]
# --small: small sizes, seconds in all. --cpu: as C++. PROGRAM: mandelbrot, for example; all of them without one.
set -euo pipefail
here=$(cd "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
all=(vector_addition grid_stride_loop block_reduction coalescing serial_chain transposition streams mixed_precision
     break_even occupancy mandelbrot matrix_product)
size=() programs=() cpu=no
for word; do
  case "$word" in
    --small) size=(--small) ;;
    --cpu) cpu=yes ;;
    -*) sed -n '2,5p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
    *) [ -f "$here/$word.cu" ] || { echo "run_all.sh: no program $word: one of ${all[*]}" >&2; exit 2; }
       programs+=("$word") ;;
  esac
done
[ ${#programs[@]} -gt 0 ] || programs=("${all[@]}")
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

gpu=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null | head -n 1) || gpu=""
# Where this folder is installed, find_cuda.sh is not there.
if [ $cpu = no ] && nvcc=$("$here/../../../scripts/find_cuda.sh" nvcc 2>/dev/null || type -P nvcc); then
  # wgmma of the H100 is in 9.0a alone.
  capability=$(sed 's/.*, *//; s/\.//' <<<"$gpu")
  [[ $capability =~ ^[0-9]+$ ]] || capability=90
  if [ "$capability" -lt 80 ] && [[ " ${programs[*]} " = *" matrix_product "* ]]; then
    echo "matrix_product is left out: its levels 4 to 6 need compute capability 8.0; --cpu runs its CPU half."
    mapfile -t programs < <(printf '%s\n' "${programs[@]}" | grep -vx matrix_product)
  fi
  [ "$capability" != 90 ] || capability=90a
  compile=("$nvcc" -std=c++20 -O3 "-gencode=arch=compute_$capability,code=sm_$capability" -Xcompiler -fopenmp)
  with="nvcc $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')"
else
  compile=("${CXX:-c++}" -x c++ -std=c++20 -O3 -fopenmp ${WARNINGS:-})
  with="${CXX:-c++}"
fi
export here bin
build() {  # PROGRAM COMMAND...
  local libraries=()
  case "$1,$2" in matrix_product,*nvcc) libraries=(-lcublas) ;; esac
  "${@:2}" "$here/$1.cu" -o "$bin/$1" "${libraries[@]}"
}
export -f build
printf '%s\n' "${programs[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'build "$@" || { echo "run_all.sh: $1 does not compile" >&2; exit 1; }' _ {} "${compile[@]}"

printf 'GPU: %s. CPU: %s, %s threads. Compiled with %s.\n\n' "${gpu:-none}" \
  "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "${OMP_NUM_THREADS:-$(nproc)}" "$with"
failed=0
for program in "${programs[@]}"; do
  "$bin/$program" "${size[@]}" || failed=1
done
exit $failed
