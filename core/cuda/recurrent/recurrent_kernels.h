// Kernels around recurrent layers over sequences of different lengths, which are read on the device
// only: see Note [Flagged steps] in cudnn_recurrent.cpp. `dtype` is f32, bf16 or f16.
#pragma once

#include "core/backend/geometry.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// A batch of sequences, and the order in which a cell computes their valid steps.
struct Sequences {
  int64_t steps = 0, batch = 0;
  const int64_t* lengths = nullptr;  // (batch), on the device
  bool backwards = false;            // from the last valid step to the first
  DType dtype = DType::f32;
};

/// Columns of a tensor (steps, batch, row) from `first` on; null: zeros.
template <class Void>
struct StepColumns {
  Void* data = nullptr;
  int64_t row = 0, first = 0;
};

/// Brings valid steps from the order of time to that of a cell, or back (the map is its own
/// inverse): `columns` of y become those of x, and zero after a sequence's end, where x is not
/// read. y is not x.
struct ReorderedSteps {
  StepColumns<const void> x;
  const void* backward = nullptr;  // x of a cell in the other direction, which is added; or null
  const void* last = nullptr;      // (batch, columns), added at the last valid step; or null
  StepColumns<void> y;
  int64_t columns = 0;
  int64_t flag_columns = 0;  // of y behind them: the flag (1 after a sequence's end), then zeros
};
void reorder_steps(cudaStream_t stream, const Sequences& s, const ReorderedSteps& r);

/// The weights for steps with a flag: `padded` (gates hidden, width) is w_ih (gates hidden,
/// features), then the weights of the flag, then zeros.
void flag_weights(cudaStream_t stream, RecurrentKind kind, DType dtype, int64_t hidden,
                  const void* w_ih, int64_t features, void* padded, int64_t width);

/// last (batch, extent) is each sequence's row of results (steps, batch, extent) at the cell's last
/// valid step; null results leave it as it is. For a sequence without steps it is the row of
/// `initial` (batch, extent), or zero where that is null.
void last_results(cudaStream_t stream, const Sequences& s, const void* results, const void* initial,
                  void* last, int64_t extent);

}  // namespace whisker::cuda::kernels
