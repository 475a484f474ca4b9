// Convolutions whose padding differs by side, by way of cuDNN engines that never see such padding.
//
// Note [Padding that differs by side]
// PaddingMode::same pads one more element at the end where the total is odd. Some engines that
// cuDNN 9.14 proposes for weights' gradients ignore it and return wrong numbers without an error
// (H200: 2 engines, 50 of 8,627 proposals over all passes and types of 19 convolutions, none with
// equal padding). Without tf32 such an engine is sometimes the first proposal. So cuDNN gets an x
// with that row and column of zeros; of the gradient of such an x, they are cut off.
#pragma once

#include "core/cuda/convolution/convolution.h"

namespace whisker::cuda {

/// The request with equal padding, whose x is larger by the difference between the padding at the
/// end and that at the start.
ConvolutionRequest padded_evenly(ConvolutionRequest request);

/// `algorithm`, which computes padded_evenly(request), as one for `request`. Not for
/// requests fused with a norm.
ConvolutionAlgorithmPointer pad_around(const ConvolutionRequest& request,
                                       ConvolutionAlgorithmPointer algorithm);

}  // namespace whisker::cuda
