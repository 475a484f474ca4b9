// A batch norm with its activation and a pointwise convolution behind it, for the convolutions of
// pointwise_takes_norm() (core/backend/fused_ops.h) on GPUs from compute capability 8.0 on. Sums
// are in a fixed order: results are deterministic.
#pragma once

#include "core/cuda/convolution/convolution.h"
#include "core/cuda/memory/allocator.h"

namespace whisker::cuda {

/// y and its sums from x, w and the norm.
void pointwise_forward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
                       const ConvolutionOperands& operands);

/// The gradients of a normalised backward_input pass, dx complete, and dw: each where not null.
void pointwise_backward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
                        const ConvolutionOperands& operands, void* dw);

}  // namespace whisker::cuda
