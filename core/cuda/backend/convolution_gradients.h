// What the gradients of a convolution read and write, on the 16-byte grid.
#pragma once

#include "core/backend/operands.h"
#include "core/cuda/convolution/convolution.h"
#include "core/cuda/memory/aligned.h"

namespace whisker::cuda {

class ConvolutionGradients {
 public:
  /// y is read only with an activation, `active`.
  ConvolutionGradients(Context& context, Allocator& allocator, const AffineSaved& saved,
                       const Tensor& dy, const AffineGrads& out, bool active)
      : x_(context, allocator, out.dw.defined() ? saved.x : no_tensor),
        w_(context, allocator, out.dx.defined() ? saved.w : no_tensor),
        y_(context, allocator, active ? saved.y : no_tensor),
        dy_(context, allocator, dy),
        dx_(context, allocator, out.dx),
        dw_(context, allocator, out.dw),
        db_(context, allocator, out.db) {}

  /// Those of a request for the weights' gradient.
  ConvolutionOperands of_weights() const {
    return {.x = x_.data(), .w = dw_.data(), .b = db_.data(), .y = dy_.data(), .output = y_.data()};
  }
  /// Those of a request for the input's gradient, from dz.
  ConvolutionOperands of_input(void* dz) const {
    return {.x = dx_.data(), .w = w_.data(), .y = dz};
  }
  /// Call it after the work was enqueued.
  void finish() {
    dx_.finish();
    dw_.finish();
    db_.finish();
  }

 private:
  AlignedInput x_, w_, y_, dy_;
  AlignedOutput dx_, dw_, db_;
};

}  // namespace whisker::cuda
