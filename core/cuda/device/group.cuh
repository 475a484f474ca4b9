// Reductions across the threads of a warp or a block, in an order that depends on nothing but the
// number of threads, and the block of a kernel that finishes last.
#pragma once

#include "core/cuda/device/launch.h"

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

/// op over the values of G threads that work together: 1, a warp (32) or a block (block_threads).
/// Every one of them gets the result. A block's threads must all call it.
template <int G, class T, class Op>
__device__ inline T group_reduce(T value, const Op& op) {
  static_assert(G == 1 || G == 32 || G == block_threads);
  if constexpr (G == 1) return value;
  value = warp_reduce(value, op);
  if constexpr (G == block_threads) {
    __shared__ T of_warp[block_threads / 32];
    __syncthreads();  // a reduction before this one may still be read
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
#pragma unroll
    for (int i = 1; i < block_threads / 32; ++i) value = op(value, of_warp[i]);
  }
  return value;
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// The larger; a NaN loses, as in fmaxf.
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

/// True in the block that is the last of `blocks` to call this with `ticket`, a zero in device
/// memory that is zero again afterwards. What all of them wrote before is visible to it (read it
/// with __ldcg). All threads of a block call it together; one of them has fences for all, as in
/// CUDA's own barriers over a grid, since what comes before a block's barrier comes before them.
__device__ inline bool is_last_block(uint32_t* ticket, unsigned blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();
    last = atomicInc(ticket, blocks - 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

/// Adds up every thread's `own`: blocks leave their sums in `parts` (gridDim.x); the last one adds
/// them in their order. True, with the whole sum in `all`, in one thread of all. All threads call
/// it; blocks of block_threads.
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
