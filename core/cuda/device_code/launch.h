// Grid sizes: kernels with grid-stride loops and 256 threads per block. Launches: pdl.cuh.
#pragma once

#include <algorithm>
#include <cstdint>

namespace whisker::cuda {

inline constexpr int block_threads = 256;

/// Blocks for `items` grid-stride items, one per thread and turn: at most 32 blocks for each of up
/// to 132 multiprocessors, at least one.
inline unsigned grid_for(int64_t items, int threads = block_threads) {
  constexpr int64_t most = 132 * 32;
  return static_cast<unsigned>(std::clamp<int64_t>((items + threads - 1) / threads, 1, most));
}

/// Blocks for one thread per item.
inline unsigned blocks_of(int64_t items) {
  return static_cast<unsigned>((items + block_threads - 1) / block_threads);
}

}  // namespace whisker::cuda
