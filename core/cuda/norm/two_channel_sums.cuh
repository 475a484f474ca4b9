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
#include <type_traits>

namespace whisker::cuda {

// Large blocks, so that there are few chunks to add up.
inline constexpr int channel_sums_threads = 512;
inline constexpr int tile_channels = 128;  // at most, of a block that adds up

/// How kernels split (rows, channels). A thread computes one pack of adjacent channels for several
/// rows: a block is `down` rows of `width` packs, contiguous memory where the tile is all channels.
/// blockIdx.x is the tile of channels, blockIdx.y the chunk of rows, blockIdx.z the part of the
/// chunk, from its end.
struct ChannelLayout {
  int64_t rows = 0, channels = 0;
  int width = 1;           // packs per tile
  int down = 1;            // rows of a block at a time
  int64_t chunk = 0;       // rows
  int64_t block_rows = 0;  // rows of one block; kernels that add up take whole chunks
  unsigned tiles = 1;      // tiles of channels
  unsigned chunks = 1;     // chunks of rows
  unsigned parts = 1;      // of a chunk

  /// For about `blocks` blocks that add up packs of `pack` channels; at least four rows per thread.
  /// Narrow tiles leave a last block fewer sums to add up; where they would share sectors, wide
  /// ones cost less.
  static ChannelLayout of(int64_t rows, int64_t channels, int pack, int64_t blocks) {
    ChannelLayout c{.rows = rows, .channels = channels};
    c.split_channels(pack, channel_sums_threads, (channels % 64 == 0 ? 64 : tile_channels) / pack);
    const int64_t most = std::clamp<int64_t>(rows / (4 * c.down), 1, 65535);
    c.split_rows(std::clamp<int64_t>(blocks / int64_t{c.tiles}, 1, most));
    return c;
  }
  /// Tiles of one width, or nearly so: blocks of a narrow last tile would leave memory idle.
  void split_channels(int pack, int threads, int widest) {
    const int64_t packs = (channels + pack - 1) / pack;
    tiles = static_cast<unsigned>((packs + widest - 1) / widest);
    width = static_cast<int>((packs + tiles - 1) / tiles);
    down = threads / width;
  }
  void split_rows(int64_t wanted) {
    chunk = block_rows = (rows + wanted - 1) / wanted;
    chunks = static_cast<unsigned>((rows + chunk - 1) / chunk);
  }
  dim3 grid() const { return {tiles, chunks, parts}; }
  unsigned threads() const { return static_cast<unsigned>(width * down); }
};

/// First channel of this thread's pack; at least `channels` when it has none.
template <int V>
__device__ inline int64_t own_channel(const ChannelLayout& t) {
  return (int64_t{blockIdx.x} * t.width + threadIdx.x % static_cast<unsigned>(t.width)) * V;
}

/// Adds up a and b over the threads of a block with the same threadIdx.x % width, where those
/// behind the last whole row of `width` threads do not count: thread i returns the sums of channel
/// i of the row. `shared` (N, threads).
template <int N>
__device__ float2 add_rows(int width, float (&a)[N], float (&b)[N], float2* shared) {
  const auto own = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const auto write = [&] {
#pragma unroll
    for (int v = 0; v < N; ++v) shared[v * threads + own] = {a[v], b[v]};
  };
  for (int rows = threads / width; rows > 1;) {
    const int half = (rows + 1) / 2;
    if (own >= half * width && own < rows * width) write();
    __syncthreads();
    if (own < (rows - half) * width) {
#pragma unroll
      for (int v = 0; v < N; ++v) {
        const float2 term = shared[v * threads + own + half * width];
        a[v] += term.x;
        b[v] += term.y;
      }
    }
    rows = half;
  }
  if (own < width) write();
  __syncthreads();
  return own < width * N ? shared[own % N * threads + own / N] : float2{0, 0};
}

/// Adds up the chunks of the tile's `across` channels with all threads of the block: thread i
/// returns the sums of channel `first` + i. A thread adds up N channels, 1 or 2. `shared` (N,
/// threads).
template <int N>
__device__ float2 add_chunks(const ChannelLayout& t, int64_t first, int across,
                             const float2* partials, float2* shared) {
  using Terms = std::conditional_t<N == 2, float4, float2>;
  constexpr unsigned together = 8;
  const auto width = static_cast<unsigned>(across / N);
  const unsigned step = blockDim.x / width;
  const int64_t channel = first + threadIdx.x % width * N;
  float a[N] = {}, b[N] = {};
  if (threadIdx.x < step * width && channel < t.channels) {
    for (unsigned chunk = threadIdx.x / width; chunk < gridDim.y; chunk += together * step) {
      Terms terms[together];
#pragma unroll
      for (unsigned k = 0; k < together; ++k) {
        const unsigned own = chunk + k * step;
        const float2* const from = partials + own * t.channels + channel;
        terms[k] = own < gridDim.y ? __ldcg(reinterpret_cast<const Terms*>(from)) : Terms{};
      }
#pragma unroll
      for (unsigned k = 0; k < together; ++k) {
        a[0] += terms[k].x;
        b[0] += terms[k].y;
        if constexpr (N == 2) {
          a[1] += terms[k].z;
          b[1] += terms[k].w;
        }
      }
    }
  }
  return add_rows(static_cast<int>(width), a, b, shared);
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
  for (; count > 0; count -= Together) {
#pragma unroll
    for (int k = 0; k < Together; ++k) {
      if (k < count) use(position, loaded[k]);
      if (k + Together < count) loaded[k] = load(ahead);
      advance(position);
      advance(ahead);
    }
  }
}

/// for_rows over this thread's rows of the block's part, from the last to the first: the L2 cache
/// still holds what the previous pass read last, and blocks of the last parts run first.
template <int V, int Together, class Load, class Prepare, class Use>
__device__ void for_rows_reversed(const ChannelLayout& t, const Load& load, const Prepare& prepare,
                                  const Use& use) {
  const int64_t begin = blockIdx.y * t.chunk;
  const int64_t end = min(begin + t.chunk, t.rows) - blockIdx.z * t.block_rows;
  const auto own = static_cast<int>(threadIdx.x) / t.width;
  const auto left = static_cast<int>(min(end - begin, t.block_rows)) - own;
  const int64_t row = end - 1 - own;
  for_rows<Together>(t, {row, row * t.channels + own_channel<V>(t)}, -t.down,
                     (left + t.down - 1) / t.down, load, prepare, use);
}

/// for_rows over this thread's rows of the block's chunk.
template <int V, int Together, class Load, class Prepare, class Use>
__device__ void for_chunk_rows(const ChannelLayout& t, const Load& load, const Prepare& prepare,
                               const Use& use) {
  if (own_channel<V>(t) >= t.channels) return;
  const int64_t begin = blockIdx.y * t.chunk;
  const int64_t end = min(begin + t.chunk, t.rows);
  const auto own = static_cast<int>(threadIdx.x) / t.width;
  const auto left = static_cast<int>(end - begin) - own;
  const int64_t row = begin + own;
  for_rows<Together>(t, {row, row * t.channels + own_channel<V>(t)}, t.down,
                     (left + t.down - 1) / t.down, load, prepare, use);
}

/// add(position, loaded, a, b) adds what the V channels of a row contribute to two sums each, from
/// what load(position) gave, prepare() as for for_rows; finish(channel, sum of a, sum of b) is
/// called once per channel. partials (chunks, channels).
template <int V, int Together, class Load, class Prepare, class Add, class Finish>
__device__ void two_channel_sums(const ChannelLayout& t, float2* partials, uint32_t* tickets,
                                 const Load& load, const Prepare& prepare, const Add& add,
                                 const Finish& finish) {
  __shared__ float2 shared[V * channel_sums_threads];
  float a[V] = {}, b[V] = {};
  for_chunk_rows<V, Together>(
      t, load, prepare,
      [&](const RowPosition& position, const auto& loaded) { add(position, loaded, a, b); });
  const int across = t.width * V;
  const auto own = static_cast<int>(threadIdx.x);
  const int64_t first = int64_t{blockIdx.x} * across;
  const bool sums_channel = own < across && first + own < t.channels;
  float2 sum = add_rows(t.width, a, b, shared);
  if (gridDim.y > 1) {
    if (sums_channel) partials[blockIdx.y * t.channels + first + own] = sum;
    if (!is_last_block(tickets + blockIdx.x, gridDim.y)) return;
    constexpr int together = V > 1 ? 2 : 1;
    sum = add_chunks<together>(t, first, across, partials, shared);
  }
  if (sums_channel) finish(first + own, sum.x, sum.y);
}

/// The layout of two_channel_sums on this GPU, with `resident` blocks on a multiprocessor; its
/// partials are float2 (chunks, channels).
inline ChannelLayout sums_layout(const Context& context, int64_t rows, int64_t channels, int pack,
                                 int resident = 1) {
  const int64_t blocks = int64_t{resident} * context.multiprocessors();
  ChannelLayout c = ChannelLayout::of(rows, channels, pack, blocks);
  if (c.tiles > Context::ticket_count) c.split_rows(1);
  return c;
}

/// The layout of a pass that writes after one with the layout `sums`, over the same chunks. Tiles
/// are whole rows where a block has the threads: a sector that two blocks write in part would be
/// read, too. `resident` blocks of block_threads fit on a multiprocessor, by registers; threads
/// have at most 16 rows, since multiprocessors are not equally fast, and blocks come in whole
/// waves.
inline ChannelLayout map_layout(const Context& context, const ChannelLayout& sums, int pack,
                                int resident) {
  ChannelLayout c = sums;
  c.split_channels(pack, block_threads, block_threads);
  const auto ceil_ratio = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t wave = int64_t{resident} * context.multiprocessors();
  // What one block would do, in rows of its threads.
  const int64_t turns = ceil_ratio(c.chunk, c.down) * c.tiles * c.chunks;
  const int64_t rows_per_thread =
      std::max<int64_t>(ceil_ratio(turns, wave * ceil_ratio(turns, wave * 16)), 4);
  c.block_rows = std::max(rows_per_thread * c.down, ceil_ratio(c.chunk, 65535));
  c.parts = static_cast<unsigned>(ceil_ratio(c.chunk, c.block_rows));
  return c;
}

}  // namespace whisker::cuda
