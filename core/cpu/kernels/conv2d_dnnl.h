// One call of a convolution through oneDNN, in f32 or bf16, with its layouts and epilogues: see
// ConvolutionKernels.
#pragma once

#include "core/backend/convolution.h"
#include "core/cpu/onednn/conv2d_algorithms.h"

namespace whisker::cpu {

KernelWorkspace dnnl_conv2d_workspace(Conv2dAlgorithms& algorithms, Allocator& allocator,
                                      const Conv2dGeometry& g, bool dx, bool dw);
/// Compute everything, or return false: not supported.
bool dnnl_conv2d(Conv2dAlgorithms& algorithms, Allocator& allocator, const Conv2dGeometry& g,
                 const AffineInputs& in, const Tensor& y);
bool dnnl_conv2d_backward(Conv2dAlgorithms& algorithms, Allocator& allocator,
                          const Conv2dGeometry& g, const AffineSaved& saved, const Tensor& dy,
                          const AffineGrads& out);

}  // namespace whisker::cpu
