// A pass over (rows, channels) that computes something of each element and any number of sums per
// channel; core/cuda/norm/two_channel_sums.cuh is faster for two. Threads along x of a block are
// adjacent packs of channels, threads along y are rows: a warp reads whole cache lines, and a sum
// stays in registers until the end of the block. Blocks along y split the rows; the last of them
// adds up their partial sums.
#pragma once

#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/types.cuh"
#include "core/cuda/runtime/context.h"

#include <algorithm>

namespace whisker::cuda {

/// Rows of `packs` packs of channels; `sums` (gridDim.y, channels) is null where gridDim.y is 1.
template <class T>
struct ChannelSums {
  int64_t rows, packs;
  float* sums;
  T* result;          // (channels), or null: no sums
  uint32_t* tickets;  // Context::tickets
};

/// Adds up `sum` over threadIdx.y; the result is in threads with threadIdx.y == 0.
template <int N>
__device__ void add_threads(float (&sum)[N]) {
  extern __shared__ float partial[];  // (blockDim.y, blockDim.x N)
  const unsigned width = blockDim.x * N;
  float* const own = partial + threadIdx.y * width + threadIdx.x * N;
  __syncthreads();  // all threads have read an earlier use
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

/// The rows of this block.
struct RowRange {
  int64_t begin, end;
};
template <class T>
__device__ RowRange block_rows(const ChannelSums<T>& g) {
  const int64_t rows_per_block = (g.rows + gridDim.y - 1) / gridDim.y;
  const int64_t begin = blockIdx.y * rows_per_block;
  return {begin, begin + rows_per_block < g.rows ? begin + rows_per_block : g.rows};
}

/// Adds up `sum` over all threads of the same pack and stores the result. Threads without a pack
/// hold 0. blockDim (x, y): powers of two; gridDim: (packs / blockDim.x, blocks along the rows).
template <class T, int N>
__device__ void add_blocks(const ChannelSums<T>& g, float (&sum)[N]) {
  if (!g.result) return;
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const bool inside = pack < g.packs;
  add_threads(sum);
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
    add_threads(sum);
  }
  if (threadIdx.y != 0 || !inside) return;
#pragma unroll
  for (int i = 0; i < N; ++i) g.result[pack * N + i] = from_f32<T>(sum[i]);
}

/// Calls use(row, pack, load(row, pack), sum) for every pack; use() adds to sum, float[N]. A thread
/// loads `together` rows at a time (for_each_row). Grid and block are those of add_blocks().
template <class T, int N, int together, class Load, class Use>
__device__ void many_channel_sums(const ChannelSums<T>& g, Load&& load, Use&& use) {
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const auto [begin, end] = block_rows(g);
  float sum[N] = {};
  if (pack < g.packs) {
    for_each_row<together>(
        begin + threadIdx.y, end, blockDim.y, [&](int64_t row) { return load(row, pack); },
        [&](int64_t row, const auto& loaded) { use(row, pack, loaded, sum); });
  }
  add_blocks(g, sum);
}

/// Grid, block and memory of a pass.
struct ChannelSumsLaunch {
  dim3 grid, block;
  int64_t sums_bytes;  // of ChannelSums::sums
  size_t shared_bytes;
};

/// Eight rows per thread, fewer where a multiprocessor would have no block; at most three blocks
/// per multiprocessor, as many as registers allow. A block is at most `widest` packs wide: narrow
/// blocks leave fewer partial sums per channel.
inline ChannelSumsLaunch channel_sums_launch(int64_t rows, int64_t packs, int pack,
                                             int multiprocessors, unsigned widest) {
  const unsigned across = packs_across(packs, widest);
  const unsigned down = block_threads / across;
  const int64_t blocks_across = (packs + across - 1) / across;
  const int64_t most_parts = std::max<int64_t>(3 * int64_t{multiprocessors} / blocks_across, 1);
  const int64_t turns = std::max<int64_t>(rows / down, 1);  // blocks with one row per thread
  const int64_t spread = std::max<int64_t>(int64_t{multiprocessors} / blocks_across, 1);
  int64_t parts = std::min(std::max(turns / 8, std::min(turns, spread)), most_parts);
  if (blocks_across > Context::ticket_count) parts = 1;
  return {.grid = dim3(static_cast<unsigned>(blocks_across), static_cast<unsigned>(parts)),
          .block = dim3(across, down),
          .sums_bytes = parts > 1 ? parts * packs * pack * int64_t{sizeof(float)} : 0,
          .shared_bytes = sizeof(float) * static_cast<size_t>(pack) * block_threads};
}

}  // namespace whisker::cuda
