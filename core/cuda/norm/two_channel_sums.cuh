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

// One large block per multiprocessor leaves the last block few chunks to add up. More threads than
// these would spend more time on what each does once than on the rows of a small tensor.
inline constexpr int channel_sums_threads = 512;
inline constexpr int most_sums_threads = 768;  // of kernels with at most 80 registers
inline constexpr int tile_channels = 128;      // at most, of a block that adds up

/// How kernels split (rows, channels). A thread computes one pack of adjacent channels for several
/// rows: a block is `down` rows of `width` packs, contiguous memory where the tile is all channels.
/// blockIdx.x is the tile of channels, blockIdx.y the chunk of rows, blockIdx.z the part of the
/// chunk, from its end.
struct ChannelLayout {
  int64_t rows = 0, channels = 0;
  int width = 1;            // packs per tile
  int down = 1;             // rows of a block at a time
  int64_t chunk = 0;        // rows
  int64_t block_rows = 0;   // rows of one block; kernels that add up take whole chunks
  unsigned tiles = 1;       // tiles of channels
  unsigned chunks = 1;      // chunks of rows
  unsigned parts = 1;       // of a chunk
  unsigned reciprocal = 0;  // 2^20 / width, rounded up

  /// A layout of about `blocks` blocks that add up packs of `pack` channels; at least four rows per
  /// thread. Narrow tiles leave a last block fewer sums to add up; where they would share sectors,
  /// wide ones cost less.
  static ChannelLayout of(int64_t rows, int64_t channels, int pack, int64_t blocks,
                          int threads = channel_sums_threads) {
    ChannelLayout c{.rows = rows, .channels = channels};
    c.split_channels(pack, threads, (channels % 64 == 0 ? 64 : tile_channels) / pack);
    const int64_t most = std::clamp<int64_t>(rows / (4 * c.down), 1, 65535);
    c.split_rows(std::clamp<int64_t>(blocks / int64_t{c.tiles}, 1, most));
    return c;
  }
  /// Tiles of one width, or nearly so: blocks of a narrow last tile would leave memory idle.
  void split_channels(int pack, int threads, int widest) {
    const int64_t packs = (channels + pack - 1) / pack;
    tiles = static_cast<unsigned>((packs + widest - 1) / widest);
    width = static_cast<int>((packs + tiles - 1) / tiles);
    reciprocal = ((1u << 20) + static_cast<unsigned>(width) - 1) / static_cast<unsigned>(width);
    down = threads / width;
  }
  void split_rows(int64_t wanted) {
    chunk = block_rows = (rows + wanted - 1) / wanted;
    chunks = static_cast<unsigned>((rows + chunk - 1) / chunk);
  }
  dim3 grid() const { return {tiles, chunks, parts}; }
  unsigned threads() const { return static_cast<unsigned>(width * down); }
};

/// Where a thread is in its block, without a division: exact for threads and widths up to 1024.
struct ThreadPosition {
  int row, pack;
  explicit __device__ ThreadPosition(const ChannelLayout& t)
      : row(static_cast<int>(threadIdx.x * t.reciprocal >> 20)),
        pack(static_cast<int>(threadIdx.x) - row * t.width) {}
};

/// First channel of the block's tile.
template <int V>
__device__ inline int first_channel(const ChannelLayout& t) {
  return static_cast<int>(blockIdx.x) * t.width * V;
}

/// First channel of this thread's pack; at least `channels` when it has none.
template <int V>
__device__ inline int64_t own_channel(const ChannelLayout& t) {
  return first_channel<V>(t) + ThreadPosition(t).pack * V;
}

/// Channel whose sums this thread finishes in two_channel_sums; at least `channels` for none.
template <int V>
__device__ inline int64_t summed_channel(const ChannelLayout& t) {
  const auto own = static_cast<int>(threadIdx.x);
  return own < t.width * V ? first_channel<V>(t) + own : t.channels;
}

/// Between a and b of one channel and of the next in shared memory: `half` rows of `width`, and
/// what lets adjacent threads read several channels of a row without a bank conflict.
__device__ inline int pitch_of(int half, int width) {
  return (half * width + 15) / 16 * 16 + width % 16;
}

/// Adds up a and b over the first `rows` rows of `width` threads of a block, at least N rows:
/// thread i returns the sums of channel i of the row. `row` and `pack` are those of the thread.
/// Half of the rows write what the others add; then, until one row is left, a thread adds up to
/// eight rows of one channel and writes the sum over the first, which no other thread reads.
template <int N>
__device__ float2 add_rows(int rows, int width, int row, int pack, float (&a)[N], float (&b)[N],
                           float2* shared) {
  constexpr int together = 8;
  const auto own = static_cast<int>(threadIdx.x);
  int left = (rows + 1) / 2;
  const int pitch = pitch_of(left, width);
  const auto write = [&](int at) {
#pragma unroll
    for (int v = 0; v < N; ++v) shared[v * pitch + at] = {a[v], b[v]};
  };
  if (row >= left && row < rows) write(own - left * width);
  __syncthreads();
  if (row < rows - left) {
#pragma unroll
    for (int v = 0; v < N; ++v) {
      const float2 term = shared[v * pitch + own];
      a[v] += term.x;
      b[v] += term.y;
    }
  }
  if (row < left) write(own);
  __syncthreads();
  const int first = row / N;
  float2* const sums = shared + row % N * pitch + first * width + pack;
  while (left > 1) {
    const int step = (left + together - 1) / together;
    if (first < step) {
      float2 terms[together], sum{0, 0};
#pragma unroll
      for (int k = 0; k < together; ++k)
        terms[k] = first + k * step < left ? sums[k * step * width] : float2{0, 0};
#pragma unroll
      for (int k = 0; k < together; ++k) {
        sum.x += terms[k].x;
        sum.y += terms[k].y;
      }
      *sums = sum;
    }
    __syncthreads();
    left = step;
  }
  return own < width * N ? shared[own % N * pitch + own / N] : float2{0, 0};
}

/// Adds up the chunks of the tile's channels with all threads of the block: thread i returns the
/// sums of the tile's channel i. A thread adds up N channels of a pack of V, 1 or 2. `shared` as
/// for add_rows.
template <int V, int N>
__device__ float2 add_chunks(const ChannelLayout& t, const float2* partials, float2* shared) {
  using Terms = std::conditional_t<N == 2, float4, float2>;
  constexpr int together = 12;
  const int rows = t.down / (V / N), width = t.width * (V / N);
  const int row = ThreadPosition(t).row / (V / N);
  const int pack = static_cast<int>(threadIdx.x) - row * width;
  const int64_t channel = first_channel<V>(t) + pack * N;
  float a[N] = {}, b[N] = {};
  if (row < rows && channel < t.channels) {
    const float2* from = partials + row * t.channels + channel;
    const int64_t step = rows * t.channels;
    for (int left = static_cast<int>(gridDim.y) - row; left > 0;) {
      Terms terms[together];
#pragma unroll
      for (int k = 0; k < together; ++k) {
        terms[k] = left > 0 ? __ldcg(reinterpret_cast<const Terms*>(from)) : Terms{};
        left -= rows;
        from += step;
      }
#pragma unroll
      for (int k = 0; k < together; ++k) {
        a[0] += terms[k].x;
        b[0] += terms[k].y;
        if constexpr (N == 2) {
          a[1] += terms[k].z;
          b[1] += terms[k].w;
        }
      }
    }
  }
  return add_rows(rows, width, row, pack, a, b, shared);
}

/// A row, and the index of the thread's first channel in it.
struct RowPosition {
  int64_t row, at;
};

/// Calls use(position, load(position)) for every `step`-th of `left` rows: from `first` on, or back
/// with a Direction of -1. Loads run `Together` rows ahead. prepare(), called once the first loads
/// are under way, reads what use() needs of the thread's channels.
template <int Together, int Direction = 1, class Load, class Prepare, class Use>
__device__ void for_rows(const ChannelLayout& t, RowPosition first, int step, int left,
                         const Load& load, const Prepare& prepare, const Use& use) {
  const auto advance = [&, pitch = Direction * step * t.channels](RowPosition& position) {
    position.row += Direction * step;
    position.at += pitch;
  };
  decltype(load(first)) loaded[Together];
  RowPosition ahead = first, position = first;
#pragma unroll
  for (int k = 0; k < Together; ++k) {
    if (k * step < left) loaded[k] = load(ahead);
    advance(ahead);
  }
  prepare();
  for (int count = (left + step - 1) / step; count > 0; count -= Together) {
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
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  const int64_t begin = blockIdx.y * t.chunk;
  const int64_t end = min(begin + t.chunk, t.rows) - blockIdx.z * t.block_rows;
  const int own = ThreadPosition(t).row;
  const auto left = static_cast<int>(min(end - begin, t.block_rows)) - own;
  const int64_t row = end - 1 - own;
  for_rows<Together, -1>(t, {row, row * t.channels + channel}, t.down, left, load, prepare, use);
}

/// for_rows over this thread's rows of the block's chunk.
template <int V, int Together, class Load, class Prepare, class Use>
__device__ void for_chunk_rows(const ChannelLayout& t, const Load& load, const Prepare& prepare,
                               const Use& use) {
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  const int64_t begin = blockIdx.y * t.chunk;
  const int64_t end = min(begin + t.chunk, t.rows);
  const int64_t row = begin + ThreadPosition(t).row;
  const auto left = static_cast<int>(end - row);
  for_rows<Together>(t, {row, row * t.channels + channel}, t.down, left, load, prepare, use);
}

/// What the blocks of two_channel_sums share: partial sums (chunks, channels), Context::tickets.
struct SumsMemory {
  float2* partials;
  uint32_t* tickets;
};

/// add(position, loaded, a, b) adds what the V channels of a row contribute to two sums each, from
/// what load(position) gave, prepare() as for for_rows; finish(channel, sum of a, sum of b) is
/// called once per channel.
template <int V, int Together, class Load, class Prepare, class Add, class Finish>
__device__ void two_channel_sums(const ChannelLayout& t, const SumsMemory& memory, const Load& load,
                                 const Prepare& prepare, const Add& add, const Finish& finish) {
  // V times pitch_of half the rows, rounded up: V width is at most tile_channels.
  __shared__ float2 shared[(V * (most_sums_threads + 64) + tile_channels) / 2];
  float a[V] = {}, b[V] = {};
  for_chunk_rows<V, Together>(
      t, load, prepare,
      [&](const RowPosition& position, const auto& loaded) { add(position, loaded, a, b); });
  const ThreadPosition own(t);
  float2 sum = add_rows(t.down, t.width, own.row, own.pack, a, b, shared);
  const int64_t channel = summed_channel<V>(t);
  const bool sums_channel = channel < t.channels;
  if (gridDim.y > 1) {
    if (sums_channel) memory.partials[blockIdx.y * t.channels + channel] = sum;
    if (!is_last_block(memory.tickets + blockIdx.x, gridDim.y)) return;
    sum = add_chunks<V, (V > 1 ? 2 : 1)>(t, memory.partials, shared);
  }
  if (sums_channel) finish(channel, sum.x, sum.y);
}

/// The layout of two_channel_sums on this GPU, one block of up to `threads` on a multiprocessor.
inline ChannelLayout sums_layout(const Context& context, int64_t rows, int64_t channels, int pack,
                                 int threads = channel_sums_threads) {
  ChannelLayout c = ChannelLayout::of(rows, channels, pack, context.multiprocessors(), threads);
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
