// Recurrent layers over sequences of their own lengths without reading a length on the host: what
// a captured step needs. One call of cuDNN per cell, all steps of all sequences.
//
// Note [Flagged steps]
// A cell takes its valid steps first (the backward direction in reverse) and then steps whose input
// is all zero but for one more feature, the flag, which is 1. Its weights drive the gates to their
// ends: an lstm forgets nothing and takes nothing in (c stays), a gru keeps h, an rnn's state is -1
// (tanh) or 0 (relu). So the last c is that of the last valid step, whatever follows stays bounded,
// and as slopes at the ends are exactly 0, no gradient comes from there or passes through. h is
// picked at the last valid step, and its gradient enters there. The flag is followed by zeros up to
// a multiple of 8 features, which matrix units want.
#pragma once

#include "core/cuda/recurrent/cudnn_recurrent_plans.h"

namespace whisker::cuda {

class MaskedRecurrent {
 public:
  MaskedRecurrent(Context& context, Allocator& allocator, CudnnRecurrentPlans& plans)
      : context_(context), allocator_(allocator), plans_(plans) {}

  /// As Backend's methods of these names, for a `g` with lengths; chooses the cells' plans.
  int64_t reserve_bytes(const RecurrentGeometry& g);
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out);
  /// In a capture it changes the reserve: once after each forward there.
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
  /// With w_ih widened for the flag: its values, or unless `filled` memory for its gradient.
  RecurrentParameters widened(const Cell& cell, const RecurrentParameters& p, bool filled);

  Context& context_;
  Allocator& allocator_;
  CudnnRecurrentPlans& plans_;
};

}  // namespace whisker::cuda
