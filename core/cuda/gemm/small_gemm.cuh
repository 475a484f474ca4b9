// A gemm of small matrices in tiles of 8x32: one block per tile, one thread per element, strips of
// 32 along k of both operands in shared memory, f32 sums in order. Larger tiles would read less but
// take longer: small networks are bound by the latency of consecutive kernels.
#pragma once

#include "core/cuda/device_code/launch.h"

namespace whisker::cuda {

inline constexpr int tile_columns = 32;  // also the length of a strip along k
inline constexpr int tile_rows = block_threads / tile_columns;

inline int tiles(int64_t extent, int size) {
  return static_cast<int>((extent + size - 1) / size);
}

/// An operand's elements: at(i, k), i along the tile. `along_k`: contiguous along k.
template <class At>
struct Operand {
  At at;
  int extent;
  bool along_k;
};
template <class At>
__device__ Operand<At> operand_of(int extent, bool along_k, At at) {
  return {at, extent, along_k};
}

// A multiple of 16 bytes, so that one load reads four values of k, and free of bank conflicts.
inline constexpr int strip_pitch = tile_columns + 4;

/// The strip k, k + 1, ... of an operand's tile: strip[i][k], 0 outside.
template <class At, int Rows>
__device__ void load_strip(const Operand<At>& o, int first, int k, int depth,
                           float (&strip)[Rows][strip_pitch]) {
#pragma unroll
  for (int turn = 0; turn < Rows * tile_columns / block_threads; ++turn) {
    const int i = static_cast<int>(threadIdx.x) + turn * block_threads;
    const int down = o.along_k ? i / tile_columns : i % Rows;
    const int deep = o.along_k ? i % tile_columns : i / Rows;
    const bool inside = first + down < o.extent && k + deep < depth;
    strip[down][deep] = inside ? o.at(first + down, k + deep) : 0.0f;
  }
}

/// This thread's element of a tile, and the sum of its row of `a`.
struct TileSums {
  float sum = 0, row = 0;
};

/// sum = a(row, :) b(column, :)^T for this thread's row and column of the tile.
template <class A, class B>
__device__ TileSums tile_gemm(const Operand<A>& a, const Operand<B>& b, int row, int column,
                              int depth) {
  __shared__ alignas(16) float a_strip[tile_rows][strip_pitch];
  __shared__ alignas(16) float b_strip[tile_columns][strip_pitch];
  const int tx = static_cast<int>(threadIdx.x) % tile_columns;
  const int ty = static_cast<int>(threadIdx.x) / tile_columns;
  TileSums sums;
  for (int k = 0; k < depth; k += tile_columns) {
    __syncthreads();  // all threads have read the previous strips
    load_strip(a, row, k, depth, a_strip);
    load_strip(b, column, k, depth, b_strip);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < tile_columns; i += 4) {
      const float4 of_a = *reinterpret_cast<const float4*>(&a_strip[ty][i]);
      const float4 of_b = *reinterpret_cast<const float4*>(&b_strip[tx][i]);
      sums.sum = fmaf(of_a.x, of_b.x, sums.sum);
      sums.sum = fmaf(of_a.y, of_b.y, sums.sum);
      sums.sum = fmaf(of_a.z, of_b.z, sums.sum);
      sums.sum = fmaf(of_a.w, of_b.w, sums.sum);
      sums.row += of_a.x + of_a.y + of_a.z + of_a.w;
    }
  }
  return sums;
}

}  // namespace whisker::cuda
