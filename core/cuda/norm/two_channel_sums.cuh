// Two sums per channel of (rows, channels) in one kernel, and loops over the same rows for kernels
// that write; core/cuda/device_code/many_channel_sums.cuh is for any number of sums. A block adds
// up its chunk of rows; the last block of a tile adds up the chunks in order. Loads run several
// rows ahead: one 16-byte load per thread would keep 8 KiB per multiprocessor in flight, where
// memory at 4 TB/s needs 40.
#pragma once

#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/runtime/context.h"

#include <algorithm>
#include <cstdint>

namespace whisker::cuda {

/// How kernels split (rows, channels). A thread computes one pack of adjacent channels for several
/// rows; `width` threads are adjacent. blockIdx.x is the tile of channels, blockIdx.y the chunk of
/// rows.
struct ChannelLayout {
  int64_t rows = 0, channels = 0;
  int width = 1;        // packs per tile: a power of two, at most 32
  int64_t chunk = 0;    // rows of one block
  unsigned tiles = 1;   // tiles of channels
  unsigned chunks = 1;  // chunks of rows

  /// For about `blocks` blocks of `threads`, tiles of at most `widest` (a power of two) packs of
  /// `pack` channels, and at least `least` rows per thread.
  static ChannelLayout of(int64_t rows, int64_t channels, int pack, int threads, int64_t blocks,
                          int64_t least, int widest = 32) {
    const int64_t packs = (channels + pack - 1) / pack;
    ChannelLayout c{.rows = rows, .channels = channels};
    c.width = static_cast<int>(packs_across(packs, static_cast<unsigned>(widest)));
    c.tiles = static_cast<unsigned>((packs + c.width - 1) / c.width);
    const int64_t most = std::max<int64_t>(rows / (threads / c.width * least), 1);
    const int64_t wanted =
        std::clamp<int64_t>(blocks / int64_t{c.tiles}, 1, std::min(most, int64_t{65535}));
    c.chunk = (rows + wanted - 1) / wanted;
    c.chunks = static_cast<unsigned>((rows + c.chunk - 1) / c.chunk);
    return c;
  }
};

// Large blocks, so that there are few chunks to add up.
inline constexpr int channel_sums_threads = 512;
inline constexpr int tile_channels = 64;  // at most

/// First channel of this thread's pack; at least `channels` when it has none.
template <int V>
__device__ inline int64_t own_channel(const ChannelLayout& t) {
  return (int64_t{blockIdx.x} * t.width + threadIdx.x % static_cast<unsigned>(t.width)) * V;
}

/// Adds up over the rows of a block, first within warps, then over warps: thread i returns the sums
/// of the tile's channel i. `shared` (channel_sums_threads / 32, tile_channels).
template <int V>
__device__ float2 add_rows(const ChannelLayout& t, float (&a)[V], float (&b)[V], float2* shared) {
  constexpr int warps = channel_sums_threads / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int distance = 16; distance >= t.width; distance /= 2) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      a[v] += __shfl_xor_sync(~0u, a[v], distance);
      b[v] += __shfl_xor_sync(~0u, b[v], distance);
    }
  }
  if (lane < t.width) {
#pragma unroll
    for (int v = 0; v < V; ++v) shared[warp * tile_channels + lane * V + v] = {a[v], b[v]};
  }
  __syncthreads();
  float2 sum{0, 0};
  if (threadIdx.x < static_cast<unsigned>(t.width * V)) {
#pragma unroll
    for (int from = 0; from < warps; ++from) {
      const float2 term = shared[from * tile_channels + static_cast<int>(threadIdx.x)];
      sum.x += term.x;
      sum.y += term.y;
    }
  }
  return sum;
}

/// Adds up the chunks of the tile's `across` channels with all threads of the block: thread i
/// returns the sums of channel `first` + i. `shared` (channel_sums_threads).
__device__ inline float2 add_chunks(const ChannelLayout& t, int64_t first, unsigned across,
                                    const float2* partials, float2* shared) {
  constexpr int together = 16;
  const int64_t channel = first + threadIdx.x % across;
  const unsigned step = channel_sums_threads / across;
  float2 sum{0, 0};
  for (unsigned chunk = threadIdx.x / across; chunk < gridDim.y; chunk += together * step) {
    float2 terms[together];
#pragma unroll
    for (unsigned k = 0; k < together; ++k) {
      const unsigned own = chunk + k * step;
      terms[k] = own < gridDim.y && channel < t.channels
                     ? __ldcg(partials + own * t.channels + channel)
                     : float2{0, 0};
    }
#pragma unroll
    for (unsigned k = 0; k < together; ++k) {
      sum.x += terms[k].x;
      sum.y += terms[k].y;
    }
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < across) {
    const unsigned used = min(step, gridDim.y) * across;
    for (unsigned from = threadIdx.x + across; from < used; from += across) {
      sum.x += shared[from].x;
      sum.y += shared[from].y;
    }
  }
  return sum;
}

/// A row, and the index of the thread's first channel in it.
struct RowPosition {
  int64_t row, at;
};

/// Calls use(position, load(position)) for `count` rows from `first` on, in steps of `step` rows;
/// loads run `Together` rows ahead. prepare(), called once the first loads are under way, reads
/// what use() needs of the thread's channels.
template <int Together, class Load, class Prepare, class Use>
__device__ void for_rows(const ChannelLayout& t, RowPosition first, int step, int count,
                         const Load& load, const Prepare& prepare, const Use& use) {
  const auto advance = [&, pitch = step * t.channels](RowPosition& position) {
    position.row += step;
    position.at += pitch;
  };
  decltype(load(first)) loaded[Together];
  RowPosition ahead = first, position = first;
#pragma unroll
  for (int k = 0; k < Together; ++k) {
    if (k < count) loaded[k] = load(ahead);
    advance(ahead);
  }
  prepare();
  for (int done = 0; done < count; done += Together) {
#pragma unroll
    for (int k = 0; k < Together; ++k) {
      if (done + k < count) use(position, loaded[k]);
      if (done + k + Together < count) loaded[k] = load(ahead);
      advance(position);
      advance(ahead);
    }
  }
}

/// for_rows over this thread's rows of the block's chunk, from the last to the first: the L2 cache
/// still holds what the previous pass read last. The gridDim.z blocks of a chunk split its rows.
template <int V, int Together, class Load, class Prepare, class Use>
__device__ void for_rows_reversed(const ChannelLayout& t, const Load& load, const Prepare& prepare,
                                  const Use& use) {
  const int64_t begin = blockIdx.y * t.chunk;
  const int64_t end = min(begin + t.chunk, t.rows);
  const auto rows = static_cast<int>(blockDim.x) / t.width;  // of the block at a time
  const auto own = static_cast<int>(blockIdx.z) * rows + static_cast<int>(threadIdx.x) / t.width;
  const int step = static_cast<int>(gridDim.z) * rows;
  const auto left = static_cast<int>(end - begin) - own;
  const int64_t row = end - 1 - own;
  for_rows<Together>(t, {row, row * t.channels + own_channel<V>(t)}, -step,
                     (left + step - 1) / step, load, prepare, use);
}

/// add(position, loaded, a, b) adds what the V channels of a row contribute to two sums each, from
/// what load(position) gave, prepare() as for for_rows; finish(channel, sum of a, sum of b) is
/// called once per channel. partials (chunks, channels).
template <int V, int Together, class Load, class Prepare, class Add, class Finish>
__device__ void two_channel_sums(const ChannelLayout& t, float2* partials, uint32_t* tickets,
                                 const Load& load, const Prepare& prepare, const Add& add,
                                 const Finish& finish) {
  __shared__ float2 shared[channel_sums_threads / 32 * tile_channels];
  float a[V] = {}, b[V] = {};
  if (own_channel<V>(t) < t.channels) {
    const int64_t begin = blockIdx.y * t.chunk;
    const int64_t end = min(begin + t.chunk, t.rows);
    const auto own = static_cast<int>(threadIdx.x) / t.width;
    const int step = channel_sums_threads / t.width;
    const auto left = static_cast<int>(end - begin) - own;
    const int64_t row = begin + own;
    for_rows<Together>(
        t, {row, row * t.channels + own_channel<V>(t)}, step, (left + step - 1) / step, load,
        prepare,
        [&](const RowPosition& position, const auto& loaded) { add(position, loaded, a, b); });
  }
  const auto across = static_cast<unsigned>(t.width * V);
  const int64_t first = int64_t{blockIdx.x} * across;
  const bool sums_channel = threadIdx.x < across && first + threadIdx.x < t.channels;
  float2 sum = add_rows<V>(t, a, b, shared);
  if (gridDim.y > 1) {
    if (sums_channel) partials[blockIdx.y * t.channels + first + threadIdx.x] = sum;
    if (!is_last_block(tickets + blockIdx.x, gridDim.y)) return;
    sum = add_chunks(t, first, across, partials, shared);
  }
  if (sums_channel) finish(first + threadIdx.x, sum.x, sum.y);
}

/// The layout of two_channel_sums on this GPU, with `resident` blocks on a multiprocessor; its
/// partials are float2 (chunks, channels).
inline ChannelLayout sums_layout(const Context& context, int64_t rows, int64_t channels, int pack,
                                 int resident = 1) {
  const int widest = std::min(tile_channels / pack, 32);
  const int64_t blocks = int64_t{resident} * context.multiprocessors();
  ChannelLayout c =
      ChannelLayout::of(rows, channels, pack, channel_sums_threads, blocks, 4, widest);
  if (c.tiles > Context::ticket_count) {
    c.chunk = rows;
    c.chunks = 1;
  }
  return c;
}

}  // namespace whisker::cuda
