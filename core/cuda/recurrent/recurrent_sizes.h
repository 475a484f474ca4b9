// Extents and bytes of recurrent layers' parameters, sequences and reserve.
#pragma once

#include "core/backend/geometry.h"

namespace whisker::cuda {

/// Parts of a reserve are aligned to 256 bytes.
inline int64_t on_reserve_grid(int64_t bytes) {
  constexpr int64_t alignment = 256;
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Rows of a cell's W_ih and W_hh.
inline int64_t gate_rows(const RecurrentGeometry& g) {
  return g.gates() * g.hidden;
}

inline int64_t width_of(const RecurrentGeometry& g) {
  return static_cast<int64_t>(size_of(g.dtype));
}

/// (steps, batch, extent).
inline int64_t sequence_bytes(const RecurrentGeometry& g, int64_t extent) {
  return g.steps * g.batch * extent * width_of(g);
}

/// A layer's result (steps, batch, directions output).
inline int64_t result_bytes(const RecurrentGeometry& g) {
  return sequence_bytes(g, g.directions * g.output());
}

}  // namespace whisker::cuda
