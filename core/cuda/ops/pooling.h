// Pooling of NHWC memory. Max-pooling keeps the argmax of each window for backward: the
// index of the largest element, row by row within its window, one byte per element of y (four for
// windows over 255 elements). A window outside the image has the largest index. Ties go to the
// first element; NaN is larger than everything.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/runtime/context.h"

namespace whisker::cuda {

/// x (N,H,W,C) to y (N, h_out, w_out, C); `argmax` like y, or null.
void pool2d_forward(const Context& context, const Pool2dGeometry& g, const void* x, void* y,
                    void* argmax);
/// dx (N,H,W,C) from dy and `argmax` (null for averages).
void pool2d_backward(const Context& context, const Pool2dGeometry& g, const void* argmax,
                     const void* dy, void* dx);

}  // namespace whisker::cuda
