// Convolution as gemms over unfolded patches (im2col): any geometry, plain memory.
// All of convolution in a build without oneDNN.
#pragma once

#include "core/backend/convolution_pass.h"
#include "core/cpu/support/allocator.h"

namespace whisker::cpu {

/// One pass, without bias and activation: of x, w and y it computes one, or its gradient.
void conv2d_gemm(Allocator& allocator, const Conv2dGeometry& g, ConvolutionPass pass, float* x,
                 float* w, float* y);

}  // namespace whisker::cpu
