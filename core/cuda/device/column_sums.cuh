// A pass over rows of channels that makes something of every element and sums it per channel.
// Threads of a block lie side by side over packs of channels and above each other over rows, so
// that a warp reads whole cache lines and a sum stays in one thread's registers until the block's
// end. Blocks along y share the rows; the last of them adds their sums.
#pragma once

#include "core/cuda/device/group.cuh"
#include "core/cuda/device/types.cuh"
#include "core/cuda/gpu/context.h"

#include <algorithm>

namespace whisker::cuda {

/// Rows of `packs` packs of channels; `sums` (parts, channels) is null for one part.
template <class T>
struct ColumnSums {
  int64_t rows, packs;
  float* sums;
  T* result;          // (channels), or null: no sums are wanted
  uint32_t* tickets;  // Context::tickets
};

/// Adds `sum` over the threads of a column of the block, for threads of its first row.
template <int N>
__device__ void add_down(float (&sum)[N]) {
  extern __shared__ float partial[];  // (down, across N)
  const unsigned width = blockDim.x * N;
  float* const own = partial + threadIdx.y * width + threadIdx.x * N;
  __syncthreads();  // an earlier use is read
#pragma unroll
  for (int i = 0; i < N; ++i) own[i] = sum[i];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int i = 0; i < N; ++i) own[i] += own[half * width + static_cast<unsigned>(i)];
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sum[i] = own[i];
}

/// The rows that this thread's block shares out among its threads.
struct RowRange {
  int64_t begin, end;
};
template <class T>
__device__ RowRange block_rows(const ColumnSums<T>& g) {
  const int64_t rows_per_block = (g.rows + gridDim.y - 1) / gridDim.y;
  const int64_t begin = blockIdx.y * rows_per_block;
  return {begin, begin + rows_per_block < g.rows ? begin + rows_per_block : g.rows};
}

/// Adds up what the threads of all blocks hold in `sum` for the channels of their pack, 0 where
/// there is none. Block: (across, down), powers of two; grid: (packs / across, parts of the rows).
template <class T, int N>
__device__ void add_parts(const ColumnSums<T>& g, float (&sum)[N]) {
  if (!g.result) return;
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const bool inside = pack < g.packs;
  add_down(sum);
  if (g.sums) {
    if (threadIdx.y == 0 && inside) {
#pragma unroll
      for (int i = 0; i < N; ++i) g.sums[(blockIdx.y * g.packs + pack) * N + i] = sum[i];
    }
    if (!is_last_block(g.tickets + blockIdx.x, gridDim.y)) return;
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = 0;
    if (inside) {
#pragma unroll 4
      for (int64_t part = threadIdx.y; part < gridDim.y; part += blockDim.y) {
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += __ldcg(g.sums + (part * g.packs + pack) * N + i);
      }
    }
    add_down(sum);
  }
  if (threadIdx.y != 0 || !inside) return;
#pragma unroll
  for (int i = 0; i < N; ++i) g.result[pack * N + i] = from_f32<T>(sum[i]);
}

/// Calls use(row, pack, load(row, pack), sum) for every pack of the rows, which adds to the
/// channels' sums float[N]; a thread's next `together` loads are under way before it uses the
/// first, which stores of use() would not let the compiler arrange. Launched as add_parts says.
template <class T, int N, class Load, class Use>
__device__ void sum_columns(const ColumnSums<T>& g, Load&& load, Use&& use) {
  constexpr int together = 2;
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const auto [begin, end] = block_rows(g);
  float sum[N] = {};
  if (pack < g.packs) {
    for (int64_t row = begin + threadIdx.y; row < end; row += together * blockDim.y) {
      decltype(load(row, pack)) loaded[together];
#pragma unroll
      for (int i = 0; i < together; ++i) {
        const int64_t own = row + i * blockDim.y;
        if (own < end) loaded[i] = load(own, pack);
      }
#pragma unroll
      for (int i = 0; i < together; ++i) {
        const int64_t own = row + i * blockDim.y;
        if (own < end) use(own, pack, loaded[i], sum);
      }
    }
  }
  add_parts(g, sum);
}

/// How a pass is launched.
struct ColumnLaunch {
  dim3 grid, block;
  int64_t sums_bytes;  // of ColumnSums::sums
  size_t shared_bytes;
};

/// Eight rows per thread, fewer where that leaves multiprocessors without a block, and no more
/// blocks than run at a time (three for each multiprocessor: what the kernels' registers allow). Of
/// narrower blocks, at most `widest` packs side by side, fewer share a column: less for the last of
/// them to add up.
inline ColumnLaunch column_launch(int64_t rows, int64_t packs, int pack, int multiprocessors,
                                  unsigned widest = 32) {
  unsigned across = 1;
  while (across < packs && across < widest) across *= 2;
  const unsigned down = block_threads / across;
  const int64_t blocks_across = (packs + across - 1) / across;
  const int64_t most_parts = std::max<int64_t>(3 * int64_t{multiprocessors} / blocks_across, 1);
  const int64_t turns = std::max<int64_t>(rows / down, 1);  // with one row per thread
  const int64_t spread = std::max<int64_t>(int64_t{multiprocessors} / blocks_across, 1);
  int64_t parts = std::min(std::max(turns / 8, std::min(turns, spread)), most_parts);
  if (blocks_across > Context::ticket_count) parts = 1;
  return {.grid = dim3(static_cast<unsigned>(blocks_across), static_cast<unsigned>(parts)),
          .block = dim3(across, down),
          .sums_bytes = parts > 1 ? parts * packs * pack * int64_t{sizeof(float)} : 0,
          .shared_bytes = sizeof(float) * static_cast<size_t>(pack) * block_threads};
}

}  // namespace whisker::cuda
