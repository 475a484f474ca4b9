// Sums down the columns of (rows, channels), two at a time, in one kernel: see core/cuda/columns.h.
// A block adds up its chunk; the last block of a tile adds up the chunks, in their order.
#pragma once

#include "core/cuda/channels.cuh"
#include "core/cuda/columns.h"
#include "core/cuda/context.h"
#include "core/cuda/group.cuh"

#include <cstdint>

namespace whisker::cuda {

// A whole multiprocessor's threads in one block, so that there are few chunks to add up.
inline constexpr int column_threads = 1024;

/// First channel of this thread's pack; at least `channels` when it has none.
template <int V>
__device__ inline int64_t own_channel(const Columns& t) {
  return (int64_t{blockIdx.x} * t.width + threadIdx.x % static_cast<unsigned>(t.width)) * V;
}

// Adds up the threads of one column, first those of a warp, then the warps; calls done(channel, sum
// of a, sum of b) in one thread each.
template <int V, class Done>
__device__ void add_rows(const Columns& t, float (&a)[V], float (&b)[V], const Done& done) {
  constexpr int warps = column_threads / 32;
  constexpr int together = V < 4 ? V : 4;  // as much as 32 KiB of shared memory hold
  __shared__ float2 share[together][column_threads];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int apart = 16; apart >= t.width; apart /= 2) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      a[v] += __shfl_xor_sync(~0u, a[v], apart);
      b[v] += __shfl_xor_sync(~0u, b[v], apart);
    }
  }
#pragma unroll
  for (int v = 0; v < V; v += together) {
    __syncthreads();
    if (lane < t.width) {
#pragma unroll
      for (int k = 0; k < together; ++k) share[k][warp * t.width + lane] = {a[v + k], b[v + k]};
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < together * t.width; i += column_threads) {
      const int k = i / t.width;
      const int column = i % t.width;
      float2 sum{0, 0};
#pragma unroll 8
      for (int from = 0; from < warps; ++from) {
        sum.x += share[k][from * t.width + column].x;
        sum.y += share[k][from * t.width + column].y;
      }
      const int64_t channel = (int64_t{blockIdx.x} * t.width + column) * V + v + k;
      if (channel < t.channels) done(channel, sum.x, sum.y);
    }
  }
}

/// add(row, channel, a, b) adds what the V channels of a row contribute to two sums each;
/// finish(channel, sum of a, sum of b) is called once per channel. partials (chunks, channels). The
/// reads of `Rows` rows are under way together: four of one tensor, two of several, or registers
/// spill.
template <int V, int Rows, class Add, class Finish>
__device__ void column_sums(const Columns& t, float2* partials, uint32_t* tickets, const Add& add,
                            const Finish& finish) {
  const int64_t channel = own_channel<V>(t);
  const int64_t begin = blockIdx.y * t.chunk;
  const int64_t end = min(begin + t.chunk, t.rows);
  float a[V] = {}, b[V] = {};
  if (channel < t.channels) {
#pragma unroll Rows
    for (int64_t r = begin + threadIdx.x / static_cast<unsigned>(t.width); r < end;
         r += column_threads / t.width) {
      add(r, channel, a, b);
    }
  }
  add_rows<V>(t, a, b, [&](int64_t c, float sum_a, float sum_b) {
    if (gridDim.y == 1) {
      finish(c, sum_a, sum_b);
    } else {
      partials[blockIdx.y * t.channels + c] = {sum_a, sum_b};
    }
  });
  if (gridDim.y == 1) return;
  if (!is_last_block(tickets + blockIdx.x, gridDim.y)) return;

  // The tile's channels side by side, and as many threads below each as the block has.
  const int across = t.width * V;
  const int64_t own = int64_t{blockIdx.x} * across + threadIdx.x % static_cast<unsigned>(across);
  float2 sum{0, 0};
  if (own < t.channels) {
#pragma unroll 8
    for (int64_t j = threadIdx.x / static_cast<unsigned>(across); j < gridDim.y;
         j += column_threads / across) {
      const float2 partial = __ldcg(partials + j * t.channels + own);
      sum.x += partial.x;
      sum.y += partial.y;
    }
  }
  __shared__ float2 below[column_threads];
  below[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < static_cast<unsigned>(across) && own < t.channels) {
    for (int from = static_cast<int>(threadIdx.x) + across; from < column_threads; from += across) {
      sum.x += below[from].x;
      sum.y += below[from].y;
    }
    finish(own, sum.x, sum.y);
  }
}

/// The layout of column_sums on this GPU; its partials are float2 (chunks, channels).
inline Columns sum_columns(const Context& context, int64_t rows, int64_t channels, int pack) {
  Columns c = Columns::of(rows, channels, pack, column_threads, context.multiprocessors(), 4);
  if (c.tiles > Context::ticket_count) {
    c.chunk = rows;
    c.chunks = 1;
  }
  return c;
}

}  // namespace whisker::cuda
