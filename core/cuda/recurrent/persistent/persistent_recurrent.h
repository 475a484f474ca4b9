// Recurrent layers as one kernel that computes all steps, with the weights in shared memory: see
// Note [Persistent recurrence] in persistent_recurrent.cuh.
#pragma once

#include "core/backend/geometry.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <cuda_runtime_api.h>

namespace whisker::cuda {

/// How the (batch, hidden) states of a cell are split: each block computes `units` hidden units of
/// `rows` sequences for all steps.
struct PersistentTiling {
  int rows = 0;   // 16, 32 or 64
  int units = 0;  // 16; 8 in f32
  int cells = 0;  // at most in one launch
};

/// The tiling for cells of this geometry. `stacked`: a cell may read the cell below; else its input
/// is computed beforehand. None where shapes, dtype or GPU do not fit.
std::optional<PersistentTiling> persistent_tiling(const RecurrentGeometry& g, bool stacked,
                                                  const cudaDeviceProp& gpu);

/// One cell: a layer in one direction. Rows of steps are `y_stride`, or gates hidden, apart.
struct PersistentCell {
  const void* w_ih = nullptr;  // (gates hidden, hidden), stacked: reads y of the cell before
  const void* w_hh = nullptr;  // (gates hidden, hidden)
  const void* b_ih = nullptr;  // (gates hidden), or null; part of gx where there is one
  const void* b_hh = nullptr;
  const void* gx = nullptr;  // (steps, batch, gates hidden): W_ih x + b_ih, unless stacked
  const void* h0 = nullptr;  // (batch, hidden), or null: zeros
  const void* c0 = nullptr;
  void* y = nullptr;       // (steps, batch, y_stride)
  void* gates = nullptr;   // (steps, batch, saved_gates() hidden), or null: no backward follows
  float* c = nullptr;      // (steps, batch, hidden), likewise, of an lstm
  void* h_last = nullptr;  // (batch, hidden), or null
  void* c_last = nullptr;
  bool reverse = false;
  // Backward only:
  bool above = false;        // the next cell is stacked and reads this one's y
  const void* dy = nullptr;  // (steps, batch, y_stride), or null: zeros, or that of the next cell
  const void* dh_last = nullptr;
  const void* dc_last = nullptr;
  void* dgx = nullptr;  // (steps, batch, gates hidden): of W_ih x + b_ih
  void* dgh = nullptr;  // (steps, batch, gates hidden): of W_hh h + b_hh; dgx itself but for a gru
  void* dh0 = nullptr;  // (batch, hidden), or null
  void* dc0 = nullptr;
};

inline constexpr int most_persistent_cells = 8;
inline constexpr int persistent_warps = 8;  // of a block
inline constexpr int flag_words = 32;       // each counter has its own cache line
/// Vectors of `hidden` that forward saves: lstm i f g o; gru r z n and W_hn h + b_hn; else none.
inline int saved_gates(RecurrentKind kind) {
  return kind == RecurrentKind::lstm || kind == RecurrentKind::gru ? 4 : 0;
}

/// What the cells of a launch have in common.
struct PersistentLaunch {
  RecurrentGeometry geometry;
  PersistentTiling tiling;
  const int64_t* lengths = nullptr;  // (batch) on the device, or null
  int64_t y_stride = 0;
  uint32_t* flags = nullptr;  // persistent_flag_bytes(), zero before the launch
  cudaStream_t stream = nullptr;
};
int64_t persistent_flag_bytes(const RecurrentGeometry& g, const PersistentTiling& tiling);
/// Blocks of a launch with this many cells.
int64_t persistent_blocks(const PersistentLaunch& launch, size_t cells);
/// Shared memory of a block; `stacked`: some cell reads the one below.
size_t persistent_forward_bytes(const RecurrentGeometry& g, const PersistentTiling& tiling,
                                bool stacked);
size_t persistent_backward_bytes(const RecurrentGeometry& g, const PersistentTiling& tiling,
                                 bool stacked);

/// Whether the kernels were compiled for this generation of GPUs (PTX of an older one does not
/// count).
bool persistent_kernels_compiled();

/// All steps of `cells`; a stacked cell comes after the one whose y it reads.
void persistent_forward(const PersistentLaunch& launch, std::span<const PersistentCell> cells);
/// All steps backwards.
void persistent_backward(const PersistentLaunch& launch, std::span<const PersistentCell> cells);

}  // namespace whisker::cuda
