// Columns of elements, each processed by one thread, a warp or a block: rows of logits, or the
// middle axis of (outer, classes, inner).
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/launch.h"
#include "core/cuda/device_code/types.cuh"

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

/// Calls run.operator()<T, G>(blocks) with the type of f32, bf16 or f16 and the number of threads
/// that suits columns of `count` elements, `inner` apart; at most `widest`: 32 or block_threads.
template <int widest = block_threads, class Run>
void with_group(DType dtype, int64_t columns, int64_t count, int64_t inner, const Run& run) {
  visit_real(dtype, [&]<class T>() {
    if (inner > 1 || count <= 4) return run.template operator()<T, 1>(grid_for(columns));
    if constexpr (widest == block_threads) {
      if (count > 1024) return run.template operator()<T, block_threads>(grid_for(columns, 1));
    }
    run.template operator()<T, 32>(grid_for(columns * 32));
  });
}
template <int widest = block_threads, class Run>
void with_group(DType dtype, const SoftmaxGeometry& g, const Run& run) {
  with_group<widest>(dtype, g.outer * g.inner, g.classes, g.inner, run);
}

}  // namespace whisker::cuda
