// The kernels of recurrent layers. Layouts: core/backend/recurrent_operands.h.
#pragma once

#include "core/backend/kernel_workspace.h"
#include "core/backend/recurrent_operands.h"

namespace whisker {

class RecurrentKernels {
 public:
  virtual ~RecurrentKernels() = default;

  /// Bytes that forward leaves for backward.
  virtual int64_t reserve_bytes(const RecurrentGeometry& g) = 0;
  /// What the two below take in training, where initial states are zero. Backward: from gradients
  /// of every step (`dy`), else of the last ones, to those of x and of all parameters, as asked
  /// for. 0 where that is not known before they run.
  virtual KernelWorkspace training_workspace(const RecurrentGeometry& /*g*/, bool /*dy*/,
                                             bool /*dx*/, bool /*dw*/) {
    return {};
  }
  /// Padding, which may hold anything, is never read.
  virtual void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
                       const RecurrentOutputs& out) = 0;
  /// `in` and `out` as forward had and left them, without out.last.
  virtual void backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                        const RecurrentOutputs& out, const RecurrentGradients& gradients) = 0;
};

}  // namespace whisker
