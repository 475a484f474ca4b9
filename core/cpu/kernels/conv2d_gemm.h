// Convolution as gemms over unfolded patches (im2col): any geometry, plain memory.
// All of convolution in a build without oneDNN.
#pragma once

#include "core/backend/geometry.h"
#include "core/cpu/support/allocator.h"

namespace whisker::cpu {

/// y = conv(x, w), without bias and activation.
void conv2d_gemm_forward(Allocator& allocator, const Conv2dGeometry& g, const float* x,
                         const float* w, float* y);
/// dx = the input's gradient from dz (the gradient before the activation).
void conv2d_gemm_backward_input(Allocator& allocator, const Conv2dGeometry& g, const float* w,
                                const float* dz, float* dx);
void conv2d_gemm_backward_weights(Allocator& allocator, const Conv2dGeometry& g, const float* x,
                                  const float* dz, float* dw);

}  // namespace whisker::cpu
