// Recurrent layers over sequences of different lengths by cuDNN, one call per cell over all steps.
// The host never reads a length, so a step can be captured.
//
// Note [Flagged steps]
// A cell computes its valid steps first (the backward direction in reverse). The steps after them
// have an input of zeros and one more feature, the flag, which is 1. The weights of the flag
// saturate the gates: an lstm keeps c, a gru keeps h, an rnn's state is -1 (tanh) or 0 (relu). So
// the last c is that of the last valid step and later states stay bounded. Saturated gates have a
// slope of exactly 0: no gradient passes through these steps. h is read at the last valid step, and
// its gradient enters there. Zeros follow the flag up to a multiple of 8 features, for tensor
// cores.
#pragma once

#include "core/cuda/recurrent/cudnn/cudnn_recurrent_plans.h"

namespace whisker::cuda {

class VariableLengthCudnn {
 public:
  VariableLengthCudnn(Context& context, Allocator& allocator, CudnnRecurrentPlans& plans)
      : context_(context), allocator_(allocator), algorithms_(plans) {}

  /// As the methods of RecurrentKernels, for a `g` with lengths; chooses the cells' algorithms.
  int64_t reserve_bytes(const RecurrentGeometry& g);
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out);
  /// Changes the reserve in a capture: call it once after each forward.
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients);

 private:
  struct Cell;
  Tensor aligned(const Tensor& x);
  RecurrentInputs aligned(RecurrentInputs in);
  std::vector<Cell> cells_of(const RecurrentGeometry& g, bool training, int64_t* reserve_bytes);
  void run(const Cell& cell, const RecurrentGeometry& g, const RecurrentInputs& in,
           const RecurrentOutputs& out, const void* input, void* y);
  /// The gradient of the cell's flagged input goes to `dx`.
  void run_backward(const Cell& cell, const RecurrentGeometry& g, const RecurrentInputs& in,
                    const RecurrentOutputs& out, const RecurrentGradients& gradients,
                    const void* input, const void* dy, void* dx);
  void weights_gradient(const Cell& cell, const RecurrentCall& call,
                        const RecurrentParameters& wanted);
  /// `p` with w_ih padded for the flag: filled, or memory for its gradient.
  RecurrentParameters padded(const Cell& cell, const RecurrentParameters& p, bool filled);

  Context& context_;
  Allocator& allocator_;
  CudnnRecurrentPlans& algorithms_;
};

}  // namespace whisker::cuda
