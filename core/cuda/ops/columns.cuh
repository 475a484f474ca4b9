// Columns of elements, each processed by one thread, a warp or a block: rows of logits, or the
// middle axis of (outer, classes, inner).
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/launch.h"

#include <cstdint>

namespace whisker::cuda {

/// Calls body(column, lane) for each of `columns`, by G threads.
template <int G, class Body>
__device__ inline void for_each_column(int64_t columns, const Body& body) {
  constexpr int per_block = block_threads / G;
  for (int64_t turn = blockIdx.x; turn * per_block < columns; turn += gridDim.x) {
    const int64_t column = turn * per_block + threadIdx.x / G;
    if (column >= columns) continue;  // whole groups
    body(column, static_cast<int>(threadIdx.x % G));
  }
}
/// Position of the first element of a column along the middle axis.
__device__ inline int64_t first_element(const SoftmaxGeometry& g, int64_t column) {
  return column / g.inner * g.classes * g.inner + column % g.inner;
}

/// Calls run.operator()<G>(blocks) with the threads that suit columns of `count` elements, `inner`
/// apart; at most `widest`: 32 or block_threads.
template <int widest = block_threads, class Run>
void with_group(int64_t columns, int64_t count, int64_t inner, const Run& run) {
  if (inner > 1 || count <= 4) return run.template operator()<1>(grid_for(columns));
  if constexpr (widest == block_threads) {
    if (count > 1024) return run.template operator()<block_threads>(grid_for(columns, 1));
  }
  run.template operator()<32>(grid_for(columns * 32));
}

}  // namespace whisker::cuda
