// Pooling launchers over NHWC memory. Max-pooling leaves the winner's place within its window, one
// byte per element of y (four for windows over 255 places), for the gradient to go back to; the
// largest mark stands for a window without any picture element. Ties go to the first; a NaN wins.
#pragma once

#include "core/cuda/gpu/context.h"
#include "core/geometry.h"

namespace whisker::cuda {

/// Bytes per element of y that a maximum leaves for its gradient.
inline int64_t pool2d_mark_bytes(const Pool2dGeometry& g) {
  return g.kernel_h * g.kernel_w <= 255 ? 1 : 4;
}

/// x (N,H,W,C) to y (N, h_out, w_out, C); `marks` like y, or null.
void pool2d_forward(const Context& context, const Pool2dGeometry& g, const void* x, void* y,
                    void* marks);
/// dx (N,H,W,C) from dy and `marks` (null for averages).
void pool2d_backward(const Context& context, const Pool2dGeometry& g, const void* marks,
                     const void* dy, void* dx);

}  // namespace whisker::cuda
