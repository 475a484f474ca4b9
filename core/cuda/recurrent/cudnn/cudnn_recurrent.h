// Recurrent layers by cuDNN: all layers in one call; with dropout one layer per call, since Whisker
// draws the masks (core/backend/dropout_mask.h); over sequences of different lengths one cell.
// cuDNN reads all weights from one block: they are copied into it before every call, and gradients
// out of it afterwards. The host never reads a length, so a step can be captured.
//
// Note [Flagged steps]
// Over sequences of different lengths a cell computes its valid steps first (the backward direction
// in reverse). The steps after them have an input of zeros and one more feature, the flag, which is
// 1. The weights of the flag saturate the gates: an lstm keeps c, a gru keeps h, an rnn's state is
// -1 (tanh) or 0 (relu). So the last c is that of the last valid step and later states stay
// bounded. Saturated gates have a slope of exactly 0: no gradient passes through these steps. h is
// read at the last valid step, and its gradient enters there. Zeros follow the flag up to a
// multiple of 8 features, for tensor cores.
//
// Note [cuDNN's reserve]
// cuDNN's backward changes the reserve that its forward filled. An eager backward pass works on a
// copy, since the same graph may run backward again (retain_graph). A captured pass, which is a
// training step, needs none.
#pragma once

#include "core/backend/recurrent.h"
#include "core/cuda/memory/cuda_device.h"

namespace whisker::cuda {

class CudnnRecurrent final : public RecurrentKernels, CudaKernels {
 public:
  explicit CudnnRecurrent(CudaDevice& device) : CudaKernels(device) {}

  int64_t reserve_bytes(const RecurrentGeometry& g) override;
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override;
  /// Changes the reserve in a capture: call it once after each forward.
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override;
};

}  // namespace whisker::cuda
