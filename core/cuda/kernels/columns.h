// How the kernels over (rows, channels) are laid out: normalisation and its gradients. A thread
// keeps to one pack of neighbouring channels and goes down the rows; `width` threads lie side by
// side, blockIdx.x counts such tiles of channels and blockIdx.y chunks of rows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace whisker::cuda {

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

}  // namespace whisker::cuda
