// What the gradients of a convolution read and write, on the 16-byte grid.
#pragma once

#include "core/cuda/convolution/convolution.h"
#include "core/cuda/memory/aligned.h"

namespace whisker::cuda {

/// As Backend::conv2d_backward has them; dx, dw and db may be undefined.
struct ConvolutionTensors {
  const Tensor &x, &w, &y, &dy, &dx, &dw, &db;
};

class ConvolutionGradients {
 public:
  /// y is read only with an activation, `active`.
  ConvolutionGradients(Context& context, Allocator& allocator, const ConvolutionTensors& t,
                       bool active)
      : x_(context, allocator, t.dw.defined() ? t.x : Tensor()),
        w_(context, allocator, t.dx.defined() ? t.w : Tensor()),
        y_(context, allocator, active ? t.y : Tensor()),
        dy_(context, allocator, t.dy),
        dx_(context, allocator, t.dx),
        dw_(context, allocator, t.dw),
        db_(context, allocator, t.db) {}

  /// Those of a request for the weights' gradient or both.
  ConvolutionOperands operands() const {
    return {.x = x_.data(),
            .w = dw_.data(),
            .b = db_.data(),
            .y = dy_.data(),
            .output = y_.data(),
            .filter = w_.data(),
            .dx = dx_.data()};
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
