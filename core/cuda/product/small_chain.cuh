// What the kernels of a chain of small dense layers fetch into shared memory while they compute the
// layers before.
#pragma once

#include "core/cuda/device/types.cuh"
#include "core/cuda/product/small_chain.h"
#include "core/cuda/product/small_product.cuh"

#include <cuda_pipeline_primitives.h>

namespace whisker::cuda {

template <class T>
__device__ inline const T* typed(const void* memory) {
  return static_cast<const T*>(memory);
}
template <class T>
__device__ inline T* typed(void* memory) {
  return static_cast<T*>(memory);
}
__device__ inline int in_fours(int extent) {
  return (extent + 3) / 4 * 4;
}

/// A layer's weights in shared memory, [out][in]. Width is that of the chain's widest layer.
template <class T, int Width>
struct Weights {
  static constexpr int pack = pack_size<T>;
  static constexpr int packs = Width / pack;  // of a row: a thread each
  alignas(16) T at[Width][Width + pack];      // across the banks

  /// Begins to copy them, with rows of zeros up to the next multiple of four.
  __device__ void fetch(const SmallLink& link) {
    const int k = static_cast<int>(threadIdx.x) % packs * pack;
    if (k >= link.in) return;
#pragma unroll
    for (int turn = 0; turn < (Width * packs + block_threads - 1) / block_threads; ++turn) {
      const int o = static_cast<int>(threadIdx.x) / packs + turn * (block_threads / packs);
      if (o < link.out) {
        __pipeline_memcpy_async(&at[o][k], typed<T>(link.w) + o * link.in + k, 16);
      } else if (o < in_fours(link.out)) {
        *reinterpret_cast<uint4*>(&at[o][k]) = {};
      }
    }
  }
};

/// A block's rows of a matrix in shared memory.
template <class T, int Width>
struct Rows {
  alignas(16) T at[tile_rows][Width];

  /// Begins to copy them; `columns` is a multiple of eight.
  __device__ void fetch(const T* matrix, int rows, int columns) {
    constexpr int pack = pack_size<T>, packs = Width / pack;
    const int k = static_cast<int>(threadIdx.x) % packs * pack;
    const int row = static_cast<int>(threadIdx.x) / packs;
    const int from = static_cast<int>(blockIdx.x) * tile_rows + row;
    if (row >= tile_rows || from >= rows || k >= columns) return;
    __pipeline_memcpy_async(&at[row][k], matrix + from * columns + k, 16);
  }
};

}  // namespace whisker::cuda
