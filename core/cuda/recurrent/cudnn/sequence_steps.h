// Kernels around the recurrent cells of VariableLengthCudnn. Lengths are read on the device; see
// Note [Flagged steps] in variable_length_cudnn.h. `dtype` is f32, bf16 or f16.
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

/// The input of a cell, y (steps, batch, width): the valid steps of x (steps, batch, features) in
/// the cell's order, then the flag in column `features` (1 after the sequence's end), then zeros. x
/// is not read after the end.
void flag_steps(cudaStream_t stream, const Sequences& s, const void* x, int64_t features, void* y,
                int64_t width);

/// The weights for such steps: `padded` (gates hidden, width) is w_ih (gates hidden, features),
/// then the weights of the flag, then zeros.
void flag_weights(cudaStream_t stream, RecurrentKind kind, DType dtype, int64_t hidden,
                  const void* w_ih, int64_t features, void* padded, int64_t width);

/// Writes a cell's results (steps, batch, extent) to y (steps, batch, row), columns from `first`
/// on, in the order of time; zero after the end.
void scatter_results(cudaStream_t stream, const Sequences& s, const void* results, int64_t extent,
                     void* y, int64_t row, int64_t first);

/// last (batch, extent) is each sequence's result at the cell's last valid step; for a sequence
/// without steps, its row of `initial` (batch, extent), or zero where that is null.
void last_results(cudaStream_t stream, const Sequences& s, const void* results, const void* initial,
                  void* last, int64_t extent);

/// dresults (steps, batch, extent), in the cell's order: dy (steps, batch, row), columns from
/// `first` on, plus dlast (batch, extent) at the last valid step; zero after the end. Null dy and
/// dlast are zero.
void arriving_gradients(cudaStream_t stream, const Sequences& s, const void* dy, int64_t row,
                        int64_t first, const void* dlast, void* dresults, int64_t extent);

/// dx (steps, batch, features), in the order of time: the sum of both directions' input gradients
/// (steps, batch, width); `backward` may be null. Zero after the end.
void input_gradients(cudaStream_t stream, const Sequences& s, const void* forward,
                     const void* backward, int64_t width, void* dx, int64_t features);

/// For sequences without steps: their rows of `dinitial` (batch, extent) become those of `dlast`,
/// or zero where that is null.
void pass_gradients(cudaStream_t stream, const Sequences& s, const void* dlast, void* dinitial,
                    int64_t extent);

/// Sets x (steps, batch, extent) to zero after the end of every sequence.
void clear_after_end(cudaStream_t stream, const Sequences& s, void* x, int64_t extent);

}  // namespace whisker::cuda::kernels
