// A gemm of few rows by one block, with weights in shared memory.
//
// Note [Partial sums of a gemm]
// The warps of a block split k into chunks of 32: each warp multiplies all rows by all columns over
// its chunks, and the partial sums are added in shared memory. So each row is read once, from L2
// into fragments: lane (g, t) reads elements 8t .. 8t + 7 of a chunk of row g. This permutes k
// within a chunk relative to core/cuda/device_code/mma.cuh; weights are stored in the same
// permutation.
#pragma once

#include "core/cuda/device_code/mma.cuh"
#include "core/cuda/recurrent/persistent/persistent_recurrent.h"

namespace whisker::cuda {

inline constexpr int chunk_k = 32;

/// Eight consecutive elements along k, in registers.
template <class T>
struct Eight {
  uint32_t at[2 * sizeof(T)];
};

/// From 16-byte parts: part(i) is the i-th.
template <class T, class Part>
__device__ inline Eight<T> eight_of(const Part& part) {
  Eight<T> result;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) {
    const uint4 words = part(i);
    result.at[4 * i] = words.x;
    result.at[4 * i + 1] = words.y;
    result.at[4 * i + 2] = words.z;
    result.at[4 * i + 3] = words.w;
  }
  return result;
}

/// Index of element e of a lane in the weights of a (chunk, tile of 8 columns): the 16-byte parts
/// of the lanes are adjacent.
template <class T>
__device__ inline int64_t weight_index(int chunk, int tile, int tiles, int lane, int e) {
  constexpr int in_part = 16 / static_cast<int>(sizeof(T));
  constexpr int parts = 8 / in_part;
  const int64_t unit = int64_t{chunk} * tiles + tile;
  return ((unit * parts + e / in_part) * 32 + lane) * in_part + e % in_part;
}

template <class T>
__device__ inline Eight<T> load_weights(const T* weights, int chunk, int tile, int tiles) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  constexpr int in_part = 16 / static_cast<int>(sizeof(T));
  return eight_of<T>([&](int i) {
    return *reinterpret_cast<const uint4*>(weights +
                                           weight_index<T>(chunk, tile, tiles, lane, i * in_part));
  });
}

/// Through L2: another block may have just stored the row.
template <class T>
__device__ inline Eight<T> load_row(const T* source) {
  return eight_of<T>([&](int i) { return __ldcg(reinterpret_cast<const uint4*>(source) + i); });
}

/// acc (16,8) += rows (16,32) W (32,8): rows g and g + 8 of the lane.
template <class T>
__device__ inline void multiply_chunk(float (&acc)[4], const Eight<T>& top, const Eight<T>& bottom,
                                      const Eight<T>& w) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      multiply_add<T>(acc,
                      {top.at[2 * i], bottom.at[2 * i], top.at[2 * i + 1], bottom.at[2 * i + 1]},
                      {w.at[2 * i], w.at[2 * i + 1]});
    }
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      multiply_add_two<T>(acc, {top.at[2 * i], bottom.at[2 * i]},
                          {top.at[2 * i + 1], bottom.at[2 * i + 1]}, w.at[2 * i], w.at[2 * i + 1]);
    }
  }
}

/// acc += this warp's partial sums of rows (16 M, k) times weights (k, 8 TILES); `acc_index(tile)`
/// is the tile's index in acc. Rows from `valid` on are zero.
template <class T, int M, int TILES, int N, class AccIndex>
__device__ inline void multiply_partial(float (&acc)[M][N][4], const T* rows, int64_t stride,
                                        int valid, int k, const T* weights,
                                        const AccIndex& acc_index) {
  // Chunks whose rows are loaded ahead, as far as registers allow.
  constexpr int affordable = (160 - 4 * M * N) / (M * 4 * static_cast<int>(sizeof(T)));
  constexpr int ahead = affordable < 1 ? 1 : affordable > 4 ? 4 : affordable;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int g = lane / 4, t = lane % 4;
  const int chunks = k / chunk_k;
  for (int first = static_cast<int>(threadIdx.x / 32); first < chunks;
       first += ahead * persistent_warps) {
    Eight<T> a[ahead][M][2];
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int chunk = first + i * persistent_warps;
#pragma unroll
      for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = m * 16 + half * 8 + g;
          a[i][m][half] = row < valid && chunk < chunks
                              ? load_row(rows + row * stride + chunk * chunk_k + t * 8)
                              : Eight<T>{};
          if constexpr (sizeof(T) == 4) {
#pragma unroll
            for (uint32_t& x : a[i][m][half].at) {
              x = __float_as_uint(mma_operand(__uint_as_float(x)));
            }
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int chunk = first + i * persistent_warps;
      if (chunk >= chunks) break;
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        const Eight<T> w = load_weights(weights, chunk, tile, TILES);
#pragma unroll
        for (int m = 0; m < M; ++m) {
          multiply_chunk<T>(acc[m][acc_index(tile)], a[i][m][0], a[i][m][1], w);
        }
      }
    }
  }
}

/// The warps' partial sums (rows, columns) in shared memory; padding per row avoids bank conflicts.
template <int M, int N>
struct PartialSums {
  static constexpr int stride = N * 8 + 8;
  static constexpr int floats = persistent_warps * M * 16 * stride;
  float* at;

  __device__ void put(const float (&acc)[M][N][4]) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    float* const own = at + static_cast<int>(threadIdx.x / 32) * M * 16 * stride;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int tile = 0; tile < N; ++tile) {
        float* const to = own + (m * 16 + lane / 4) * stride + tile * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(to) = make_float2(acc[m][tile][0], acc[m][tile][1]);
        *reinterpret_cast<float2*>(to + 8 * stride) = make_float2(acc[m][tile][2], acc[m][tile][3]);
      }
    }
  }
  /// The sums of columns `column` and the next.
  __device__ float2 sum(int row, int column) const {
    float2 result = make_float2(0, 0);
#pragma unroll
    for (int warp = 0; warp < persistent_warps; ++warp) {
      const float2 partial =
          *reinterpret_cast<const float2*>(at + (warp * M * 16 + row) * stride + column);
      result.x += partial.x;
      result.y += partial.y;
    }
    return result;
  }
};

}  // namespace whisker::cuda
