// One, two or four sums per channel of (rows, channels) in one kernel, and loops over the same rows
// for kernels that write. A block adds up its chunk of rows; the last block of a tile adds up the
// chunks in order. Loads run several rows ahead: one 16-byte load per thread would keep 8 KiB per
// multiprocessor in flight, where memory at 4 TB/s needs 40.
#pragma once

#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/memory/allocator.h"

#include <algorithm>
#include <cstdint>

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
    chunk = block_rows = std::max<int64_t>((rows + wanted - 1) / wanted, 1);
    chunks = static_cast<unsigned>(std::max<int64_t>((rows + chunk - 1) / chunk, 1));
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

/// Channel whose sums this thread finishes in channel_sums; at least `channels` for none.
template <int V>
__device__ inline int64_t summed_channel(const ChannelLayout& t) {
  const auto own = static_cast<int>(threadIdx.x);
  return own < t.width * V ? first_channel<V>(t) + own : t.channels;
}

/// Between the sums of one channel and of the next in shared memory: `half` rows of `width`, and
/// what lets adjacent threads read several channels of a row without a bank conflict.
__device__ inline int pitch_of(int half, int width) {
  return (half * width + 15) / 16 * 16 + width % 16;
}

/// Adds up `sum` over the first `rows` rows of `width` threads of a block, at least N rows: thread
/// i returns the sums of channel i of the row. `row` and `pack` are those of the thread. Half of
/// the rows write what the others add; then, until one row is left, a thread adds up to eight rows
/// of one channel and writes the sum over the first, which no other thread reads.
template <int N, int S>
__device__ Pack<float, S> add_rows(int rows, int width, int row, int pack, float (&sum)[S][N],
                                   Pack<float, S>* shared) {
  constexpr int together = 8;
  const auto own = static_cast<int>(threadIdx.x);
  int left = (rows + 1) / 2;
  const int pitch = pitch_of(left, width);
  const auto write = [&](int at) {
#pragma unroll
    for (int v = 0; v < N; ++v) {
      Pack<float, S> terms;
#pragma unroll
      for (int s = 0; s < S; ++s) terms.at[s] = sum[s][v];
      shared[v * pitch + at] = terms;
    }
  };
  if (row >= left && row < rows) write(own - left * width);
  __syncthreads();
  if (row < rows - left) {
#pragma unroll
    for (int v = 0; v < N; ++v) {
      const Pack<float, S> terms = shared[v * pitch + own];
#pragma unroll
      for (int s = 0; s < S; ++s) sum[s][v] += terms.at[s];
    }
  }
  if (row < left) write(own);
  __syncthreads();
  const int first = row / N;
  Pack<float, S>* const sums = shared + row % N * pitch + first * width + pack;
  while (left > 1) {
    const int step = (left + together - 1) / together;
    if (first < step) {
      Pack<float, S> terms[together], total{};
#pragma unroll
      for (int k = 0; k < together; ++k)
        terms[k] = first + k * step < left ? sums[k * step * width] : Pack<float, S>{};
#pragma unroll
      for (int k = 0; k < together; ++k) {
#pragma unroll
        for (int s = 0; s < S; ++s) total.at[s] += terms[k].at[s];
      }
      *sums = total;
    }
    __syncthreads();
    left = step;
  }
  return own < width * N ? shared[own % N * pitch + own / N] : Pack<float, S>{};
}

/// Adds up the chunks of the tile's channels with all threads of the block: thread i returns the
/// sums of the tile's channel i. A thread adds up N channels of a pack of V. `shared` as for
/// add_rows.
template <int V, int N, int S>
__device__ Pack<float, S> add_chunks(const ChannelLayout& t, const float* partials,
                                     Pack<float, S>* shared) {
  using Terms = PackBytes<float, N * S>;
  constexpr int together = 12;
  const int rows = t.down / (V / N), width = t.width * (V / N);
  const int row = ThreadPosition(t).row / (V / N);
  const int pack = static_cast<int>(threadIdx.x) - row * width;
  const int64_t channel = first_channel<V>(t) + pack * N;
  float sum[S][N] = {};
  if (row < rows && channel < t.channels) {
    const float* from = partials + (row * t.channels + channel) * S;
    const int64_t step = rows * t.channels * S;
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
        const auto term = unpack<float, N * S>(terms[k]);
#pragma unroll
        for (int i = 0; i < N * S; ++i) sum[i % S][i / S] += term.at[i];
      }
    }
  }
  return add_rows(rows, width, row, pack, sum, shared);
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

/// What the blocks of channel_sums share: partial sums (chunks, channels, S), Context::tickets.
struct SumsMemory {
  float* partials;
  uint32_t* tickets;
};

/// add(position, loaded, sum) adds what the V channels of a row contribute to float sum[S][V], from
/// what load(position) gave, prepare() as for for_rows; finish(channel, sums) is called once per
/// channel with a Pack of its S sums.
template <int V, int S, int Together, class Load, class Prepare, class Add, class Finish>
__device__ void channel_sums(const ChannelLayout& t, const SumsMemory& memory, const Load& load,
                             const Prepare& prepare, const Add& add, const Finish& finish) {
  // V times pitch_of half the rows, rounded up: V width is at most tile_channels.
  __shared__ Pack<float, S> shared[(V * (most_sums_threads + 64) + tile_channels) / 2];
  float sums[S][V] = {};
  for_chunk_rows<V, Together>(
      t, load, prepare,
      [&](const RowPosition& position, const auto& loaded) { add(position, loaded, sums); });
  const ThreadPosition own(t);
  Pack<float, S> sum = add_rows(t.down, t.width, own.row, own.pack, sums, shared);
  const int64_t channel = summed_channel<V>(t);
  const bool sums_channel = channel < t.channels;
  if (gridDim.y > 1) {
    auto* const partials = reinterpret_cast<Pack<float, S>*>(memory.partials);
    if (sums_channel) partials[blockIdx.y * t.channels + channel] = sum;
    if (!is_last_block(memory.tickets + blockIdx.x, gridDim.y)) return;
    sum = add_chunks<V, (V < 4 / S ? V : 4 / S)>(t, memory.partials, shared);
  }
  if (sums_channel) finish(channel, sum);
}

/// The layout of channel_sums on this GPU, one block of up to `threads` on a multiprocessor.
inline ChannelLayout sums_layout(const Context& context, int64_t rows, int64_t channels, int pack,
                                 int threads = channel_sums_threads) {
  ChannelLayout c = ChannelLayout::of(rows, channels, pack, context.multiprocessors(), threads);
  if (c.tiles > Context::ticket_count) c.split_rows(1);
  return c;
}

/// Launches a kernel of channel_sums with memory for its partial sums, S for each channel.
template <int S = 2, class... Parameters, class... Arguments>
void launch_sums(Context& context, Allocator& allocator, const ChannelLayout& t,
                 void (*kernel)(ChannelLayout, SumsMemory, Parameters...),
                 const Arguments&... arguments) {
  const Scratch partials(allocator, S * int64_t{t.chunks} * t.channels * int64_t{sizeof(float)});
  launch_pdl(context, t.grid(), t.threads(), kernel, t,
             SumsMemory{partials.as<float>(), context.tickets()}, arguments...);
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
