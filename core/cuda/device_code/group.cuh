// Reductions over the threads of a warp or a block, in an order that depends only on the number of
// threads; and the last block of a kernel to finish.
#pragma once

#include "core/cuda/device_code/launch.h"

#include <cmath>
#include <cstdint>

namespace whisker::cuda {

inline constexpr unsigned all_lanes = 0xffffffffu;

/// op over the 32 values of a warp; every lane gets the result.
template <class T, class Op>
__device__ inline T warp_reduce(T value, const Op& op) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(all_lanes, value, distance));
  }
  return value;
}

/// op over the values of G threads: 1, a warp (32) or a block. All of them get the result. All
/// threads of a block must call it.
template <int G, class T, class Op>
__device__ inline T group_reduce(T value, const Op& op) {
  static_assert(G == 1 || G % 32 == 0);
  if constexpr (G == 1) return value;
  value = warp_reduce(value, op);
  if constexpr (G > 32) {
    __shared__ T of_warp[G / 32];
    __syncthreads();  // a reduction before this one may still be read
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
#pragma unroll
    for (int i = 1; i < G / 32; ++i) value = op(value, of_warp[i]);
  }
  return value;
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// The larger; ignores NaN, as fmaxf does.
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// The smaller position.
struct Smallest {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return min(a, b); }
};

template <int G, class T>
__device__ inline T group_sum(T value) {
  return group_reduce<G>(value, Sum());
}

/// Largest of at(0), ..., at(count - 1), NaN left out, by G threads; -infinity of none.
template <int G, class At>
__device__ inline float largest_of(int64_t count, int lane, const At& at) {
  float largest = -INFINITY;
  for (int64_t i = lane; i < count; i += G) largest = fmaxf(largest, at(i));
  return group_reduce<G>(largest, Largest());
}
/// The first i below `count` with at(i) == value, by G threads; INT64_MAX without one.
template <int G, class At>
__device__ inline int64_t first_of(float value, int64_t count, int lane, const At& at) {
  int64_t first = lane;
  while (first < count && at(first) != value) first += G;
  return group_reduce<G>(first < count ? first : INT64_MAX, Smallest());
}

/// Calls use(row, load(row)) for the rows from `first` on in steps of `step`. A thread starts the
/// loads of `together` rows before it uses the first: the compiler cannot move loads above the
/// stores of use().
template <int together, class Step, class Load, class Use>
__device__ inline void for_each_row(int64_t first, int64_t end, Step step, const Load& load,
                                    const Use& use) {
  for (int64_t row = first; row < end; row += together * step) {
    decltype(load(row)) loaded[together];
#pragma unroll
    for (int k = 0; k < together; ++k) {
      const int64_t own = row + k * step;
      if (own < end) loaded[k] = load(own);
    }
#pragma unroll
    for (int k = 0; k < together; ++k) {
      const int64_t own = row + k * step;
      if (own < end) use(own, loaded[k]);
    }
  }
}

/// True in the last of `blocks` blocks to call this with `ticket`, a counter in device memory that
/// is zero before and after. That block sees what all blocks wrote before the call (read it with
/// __ldcg). All threads of a block call it; between barriers, release and acquire by one thread
/// suffice, as in CUDA's grid barriers, and wait less than the fences of __threadfence().
__device__ inline bool is_last_block(uint32_t* ticket, unsigned blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(ticket), "r"(blocks - 1)
                 : "memory");
    last = before == blocks - 1;
  }
  __syncthreads();
  return last;
}

/// Adds up every thread's `own`: blocks store their sums in `parts` (gridDim.x), the last block
/// adds them up in order. One thread of all returns true, with the total in `all`. All threads of
/// blocks of block_threads call it.
__device__ inline bool add_up(double own, double* parts, uint32_t* ticket, double& all) {
  own = group_sum<block_threads>(own);
  if (threadIdx.x == 0) parts[blockIdx.x] = own;
  if (!is_last_block(ticket, gridDim.x)) return false;
  all = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += block_threads) all += __ldcg(parts + i);
  all = group_sum<block_threads>(all);
  return threadIdx.x == 0;
}

}  // namespace whisker::cuda
