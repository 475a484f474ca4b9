// Convolutions with few channels by own kernels: see Note [Few-channel convolutions] in
// few_channels_conv.cuh. They read images (1 or 3 channels) and have 32 or 64 filters, without
// pooling also any other multiple of 8 below 64. Besides plain passes, the forward pass may fuse
// bias, activation and 2x2 max-pooling; the weights' gradient may be computed from dy, the result
// and argmax.
#pragma once

#include "core/cuda/convolution/convolution.h"

namespace whisker::cuda {

/// The few-channel kernel for `request`. Null for other shapes, activations other than relu,
/// gradients of the input, f32 without tf32, and GPUs before compute capability 8.0.
ConvolutionAlgorithmPointer few_channels_conv(const ConvolutionRequest& request,
                                              const KernelSite& site);

// Launchers, for requests of which few_channels_conv() is not null.

void few_channels_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                          const KernelSite& site);

/// Bytes of the partial sums of all blocks.
int64_t few_channels_weights_workspace_bytes(const ConvolutionRequest& request);
/// dw and, with a bias, db.
void few_channels_weights(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                          const KernelSite& site, void* workspace);

}  // namespace whisker::cuda
