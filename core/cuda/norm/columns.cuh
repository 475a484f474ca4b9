// Sums down the columns of (rows, channels), two at a time, in one kernel, and walks over the same
// rows: see Columns; core/cuda/device/column_sums.cuh is for any number of
// sums. A block adds up its chunk; the last block of a tile adds up the chunks, in their order.
// Reads run ahead of their use by some rows: one of 16 bytes per thread would leave a
// multiprocessor 8 KiB under way, where memory at 4 TB/s takes 40.
#pragma once

#include "core/cuda/device/channels.cuh"
#include "core/cuda/device/group.cuh"
#include "core/cuda/gpu/context.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace whisker::cuda {

/// How the kernels over (rows, channels) are laid out: normalisation and its gradients. A thread
/// keeps to one pack of neighbouring channels and goes down the rows; `width` threads lie side by
/// side, blockIdx.x counts such tiles of channels and blockIdx.y chunks of rows.
struct Columns {
  int64_t rows = 0, channels = 0;
  int width = 1;        // packs side by side: a power of two, at most a warp of them
  int64_t chunk = 0;    // rows of one block
  unsigned tiles = 1;   // blocks side by side
  unsigned chunks = 1;  // blocks below each other

  /// For blocks of `threads` that take packs of `pack` channels, at most `widest` (a power of two)
  /// side by side; about `blocks` of them in all, and at least `least` rows for each thread.
  static Columns of(int64_t rows, int64_t channels, int pack, int threads, int64_t blocks,
                    int64_t least, int widest = 32) {
    const auto packs = static_cast<uint64_t>((channels + pack - 1) / pack);
    Columns c{.rows = rows, .channels = channels};
    c.width = static_cast<int>(std::min(static_cast<uint64_t>(widest), std::bit_ceil(packs)));
    const auto width = static_cast<uint64_t>(c.width);
    c.tiles = static_cast<unsigned>((packs + width - 1) / width);
    const int64_t most = std::max<int64_t>(rows / (threads / c.width * least), 1);
    const int64_t wanted =
        std::clamp<int64_t>(blocks / int64_t{c.tiles}, 1, std::min(most, int64_t{65535}));
    c.chunk = (rows + wanted - 1) / wanted;
    c.chunks = static_cast<unsigned>((rows + c.chunk - 1) / c.chunk);
    return c;
  }
};

// Half or all of a multiprocessor's registers in one block, so that there are few chunks to add up.
inline constexpr int column_threads = 512;
inline constexpr int tile_channels = 64;  // at most

/// First channel of this thread's pack; at least `channels` when it has none.
template <int V>
__device__ inline int64_t own_channel(const Columns& t) {
  return (int64_t{blockIdx.x} * t.width + threadIdx.x % static_cast<unsigned>(t.width)) * V;
}

/// Adds up the threads of each column, first those of a warp, then the warps: thread i gets the
/// sums of the tile's channel i. `share` (column_threads / 32, tile_channels).
template <int V>
__device__ float2 add_rows(const Columns& t, float (&a)[V], float (&b)[V], float2* share) {
  constexpr int warps = column_threads / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int apart = 16; apart >= t.width; apart /= 2) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      a[v] += __shfl_xor_sync(~0u, a[v], apart);
      b[v] += __shfl_xor_sync(~0u, b[v], apart);
    }
  }
  if (lane < t.width) {
#pragma unroll
    for (int v = 0; v < V; ++v) share[warp * tile_channels + lane * V + v] = {a[v], b[v]};
  }
  __syncthreads();
  float2 sum{0, 0};
  if (threadIdx.x < static_cast<unsigned>(t.width * V)) {
#pragma unroll
    for (int from = 0; from < warps; ++from) {
      const float2 term = share[from * tile_channels + static_cast<int>(threadIdx.x)];
      sum.x += term.x;
      sum.y += term.y;
    }
  }
  return sum;
}

/// Adds up the chunks of the tile's `across` channels, as many threads below each other as the
/// block has: thread i gets the sums of channel `first` + i. `share` (column_threads).
__device__ inline float2 add_chunks(const Columns& t, int64_t first, unsigned across,
                                    const float2* partials, float2* share) {
  constexpr int together = 16;
  const int64_t channel = first + threadIdx.x % across;
  const unsigned step = column_threads / across;
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
  share[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < across) {
    const unsigned used = min(step, gridDim.y) * across;
    for (unsigned from = threadIdx.x + across; from < used; from += across) {
      sum.x += share[from].x;
      sum.y += share[from].y;
    }
  }
  return sum;
}

/// A row of a thread's channels: its number, and where they begin.
struct RowPlace {
  int64_t row, at;
};

/// Calls use(place, load(place)) for `count` rows from `first` on, `step` rows apart; the loads of
/// `Together` rows are always under way. prepare() reads what use() needs of the thread's channels
/// while the first of them are.
template <int Together, class Load, class Prepare, class Use>
__device__ void for_rows(const Columns& t, RowPlace first, int step, int count, const Load& load,
                         const Prepare& prepare, const Use& use) {
  const auto advance = [&, pitch = step * t.channels](RowPlace& place) {
    place.row += step;
    place.at += pitch;
  };
  decltype(load(first)) loaded[Together];
  RowPlace ahead = first, place = first;
#pragma unroll
  for (int k = 0; k < Together; ++k) {
    if (k < count) loaded[k] = load(ahead);
    advance(ahead);
  }
  prepare();
  for (int done = 0; done < count; done += Together) {
#pragma unroll
    for (int k = 0; k < Together; ++k) {
      if (done + k < count) use(place, loaded[k]);
      if (done + k + Together < count) loaded[k] = load(ahead);
      advance(place);
      advance(ahead);
    }
  }
}

/// for_rows over this thread's rows of the block's chunk, from the last one up: what a pass before
/// read last still lies in the L2 cache. The gridDim.z blocks of a chunk take turns.
template <int V, int Together, class Load, class Prepare, class Use>
__device__ void for_rows_upwards(const Columns& t, const Load& load, const Prepare& prepare,
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

/// add(place, loaded, a, b) adds what the V channels of a row contribute to two sums each, from
/// what load(place) gave, prepare() as for for_rows; finish(channel, sum of a, sum of b) is called
/// once per channel. partials (chunks, channels).
template <int V, int Together, class Load, class Prepare, class Add, class Finish>
__device__ void column_sums(const Columns& t, float2* partials, uint32_t* tickets, const Load& load,
                            const Prepare& prepare, const Add& add, const Finish& finish) {
  __shared__ float2 share[column_threads / 32 * tile_channels];
  float a[V] = {}, b[V] = {};
  if (own_channel<V>(t) < t.channels) {
    const int64_t begin = blockIdx.y * t.chunk;
    const int64_t end = min(begin + t.chunk, t.rows);
    const auto own = static_cast<int>(threadIdx.x) / t.width;
    const int step = column_threads / t.width;
    const auto left = static_cast<int>(end - begin) - own;
    const int64_t row = begin + own;
    for_rows<Together>(
        t, {row, row * t.channels + own_channel<V>(t)}, step, (left + step - 1) / step, load,
        prepare, [&](const RowPlace& place, const auto& loaded) { add(place, loaded, a, b); });
  }
  const auto across = static_cast<unsigned>(t.width * V);
  const int64_t first = int64_t{blockIdx.x} * across;
  const bool sums_channel = threadIdx.x < across && first + threadIdx.x < t.channels;
  float2 sum = add_rows<V>(t, a, b, share);
  if (gridDim.y > 1) {
    if (sums_channel) partials[blockIdx.y * t.channels + first + threadIdx.x] = sum;
    if (!is_last_block(tickets + blockIdx.x, gridDim.y)) return;
    sum = add_chunks(t, first, across, partials, share);
  }
  if (sums_channel) finish(first + threadIdx.x, sum.x, sum.y);
}

/// The layout of column_sums on this GPU, with `resident` blocks on a multiprocessor; its partials
/// are float2 (chunks, channels).
inline Columns sums_layout(const Context& context, int64_t rows, int64_t channels, int pack,
                           int resident = 1) {
  const int widest = std::min(tile_channels / pack, 32);
  const int64_t blocks = int64_t{resident} * context.multiprocessors();
  Columns c = Columns::of(rows, channels, pack, column_threads, blocks, 4, widest);
  if (c.tiles > Context::ticket_count) {
    c.chunk = rows;
    c.chunks = 1;
  }
  return c;
}

}  // namespace whisker::cuda
