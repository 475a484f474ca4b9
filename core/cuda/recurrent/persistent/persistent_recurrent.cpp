// The tiling of persistent recurrent kernels: see persistent_recurrent.h.
#include "core/cuda/recurrent/persistent/persistent_recurrent.h"

#include "core/cuda/recurrent/recurrent_sizes.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

int64_t blocks_per_cell(const RecurrentGeometry& g, const PersistentTiling& tiling) {
  return (g.batch + tiling.rows - 1) / tiling.rows * (g.hidden / tiling.units);
}

/// Weights, and the partial sums (rows, sums units) of all warps.
size_t shared_bytes(const RecurrentGeometry& g, const PersistentTiling& tiling, bool stacked,
                    int64_t sums) {
  const int64_t weights = (stacked ? 2 : 1) * g.gates() * tiling.units * g.hidden * width_of(g);
  const int64_t partial_sums =
      persistent_warps * int64_t{tiling.rows} * (sums * tiling.units + 8) * int64_t{sizeof(float)};
  return static_cast<size_t>(weights + partial_sums);
}

}  // namespace

int64_t persistent_blocks(const PersistentLaunch& launch, size_t cells) {
  return blocks_per_cell(launch.geometry, launch.tiling) * static_cast<int64_t>(cells);
}

size_t persistent_forward_bytes(const RecurrentGeometry& g, const PersistentTiling& tiling,
                                bool stacked) {
  return shared_bytes(g, tiling, stacked, g.kind == RecurrentKind::gru ? 4 : g.gates());
}

size_t persistent_backward_bytes(const RecurrentGeometry& g, const PersistentTiling& tiling,
                                 bool stacked) {
  return shared_bytes(g, tiling, stacked, 1);
}

int64_t persistent_flag_bytes(const RecurrentGeometry& g, const PersistentTiling& tiling) {
  return most_persistent_cells * ((g.batch + tiling.rows - 1) / tiling.rows) * flag_words *
         int64_t{sizeof(uint32_t)};
}

std::optional<PersistentTiling> persistent_tiling(const RecurrentGeometry& g, bool stacked,
                                                  const cudaDeviceProp& gpu) {
  if (gpu.major < 9 || g.projection > 0 || g.hidden % 32 != 0) return std::nullopt;
  const bool wide = g.dtype == DType::f32;
  constexpr int64_t most_arrivals = int64_t{1} << 31;  // that a counter counts
  if (g.steps * g.hidden >= most_arrivals) return std::nullopt;
  const int smaller = wide ? 32 : 16;
  for (const int rows : {smaller, 2 * smaller}) {
    PersistentTiling tiling{.rows = rows, .units = wide ? 8 : 16};
    // Backward needs no more.
    if (persistent_forward_bytes(g, tiling, stacked) > gpu.sharedMemPerBlockOptin) continue;
    tiling.cells = static_cast<int>(std::min<int64_t>(
        gpu.multiProcessorCount / blocks_per_cell(g, tiling), most_persistent_cells));
    const int wanted = static_cast<int>(stacked ? std::min<int64_t>(g.layers, 2) : g.directions);
    if (tiling.cells >= wanted) return tiling;
  }
  return std::nullopt;
}

}  // namespace whisker::cuda
