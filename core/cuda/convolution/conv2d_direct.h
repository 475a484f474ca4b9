// Convolution written out as its definition: any geometry, f32 sums, a fixed order. What runs where
// no library engine does; nobody should wait for it.
#pragma once

#include "core/cuda/convolution/convolution.h"

namespace whisker::cuda {

/// The direct kernel for `request`, bias and activation included; null where it does not compute
/// all of that: pooling, chains, both gradients at once, a gradient with an epilogue.
ConvolutionAlgorithmPointer direct_convolution(const ConvolutionRequest& request);

}  // namespace whisker::cuda
