// Launchers of what surrounds recurrent cells over sequences of their own lengths. Lengths are read
// on the device; see Note [Flagged steps] in masked_recurrent.h. `dtype` is f32, bf16 or f16.
#pragma once

#include "core/geometry.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// A batch of sequences, and the order in which a cell takes their valid steps.
struct Sequences {
  int64_t steps = 0, batch = 0;
  const int64_t* lengths = nullptr;  // (batch), on the device
  bool backwards = false;            // from the last valid step to the first
  DType dtype = DType::f32;
};

/// What a cell reads: the valid steps of x (steps, batch, features) in the cell's order, `features`
/// of the `width` columns of y (steps, batch, width). Column `features` is 1 behind the end and 0
/// before it, all else is 0. What x holds behind the end is not read.
void flag_steps(cudaStream_t stream, const Sequences& s, const void* x, int64_t features, void* y,
                int64_t width);

/// The weights for such steps: `padded` (gates hidden, width) is w_ih (gates hidden, features),
/// then a column that answers the flag, then zeros.
void flag_weights(cudaStream_t stream, RecurrentKind kind, DType dtype, int64_t hidden,
                  const void* w_ih, int64_t features, void* padded, int64_t width);

/// A cell's results (steps, batch, extent), in its order, go to y (steps, batch, row), columns from
/// `first` on, in that of time; zero behind the end.
void place_results(cudaStream_t stream, const Sequences& s, const void* results, int64_t extent,
                   void* y, int64_t row, int64_t first);

/// last (batch, extent) is each sequence's result at the last of the cell's valid steps; without
/// any it is that of `initial` (batch, extent), or zero where that is null.
void last_results(cudaStream_t stream, const Sequences& s, const void* results, const void* initial,
                  void* last, int64_t extent);

/// The gradients of a cell's results in its order, (steps, batch, extent): of dy (steps, batch,
/// row), columns from `first` on, plus dlast (batch, extent) at the last valid step; zero behind
/// the end. Null dy and dlast are zero.
void arriving_gradients(cudaStream_t stream, const Sequences& s, const void* dy, int64_t row,
                        int64_t first, const void* dlast, void* dresults, int64_t extent);

/// dx (steps, batch, features), in the order of time, is the sum of what a cell in each direction
/// leaves for its input (steps, batch, width); `backward` may be null. Zero behind the end.
void input_gradients(cudaStream_t stream, const Sequences& s, const void* forward,
                     const void* backward, int64_t width, void* dx, int64_t features);

/// Sequences without steps hand the gradient of their last state on: their rows of `dinitial`
/// (batch, extent) become those of `dlast`, or zero where that is null.
void pass_gradients(cudaStream_t stream, const Sequences& s, const void* dlast, void* dinitial,
                    int64_t extent);

/// x (steps, batch, extent) becomes zero behind every end, whatever stood there.
void clear_after_end(cudaStream_t stream, const Sequences& s, void* x, int64_t extent);

}  // namespace whisker::cuda::kernels
