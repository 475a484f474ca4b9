// Convolutions with parts of the batch norms around them as cuDNN graphs: see Note [Fused conv +
// norm]. The patterns are those that cuDNN's documentation calls ConvBNfprop, ConvBNwgrad and
// DgradDreluBNBwdWeight.
#pragma once

#include "core/cuda/convolution/cudnn/cudnn_convolution.h"

namespace whisker::cuda {

/// The graph of a request with sums or normalised; null when cuDNN has no such operation.
std::shared_ptr<const cudnn::OperationGraph> conv_norm_graph(const cudnn::Target& target,
                                                             const ConvolutionRequest& request);

/// Adds what such a request reads and writes beside x, w and y; nothing for any other.
void bind_conv_norm(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                    std::vector<cudnn::Binding>& bindings);

}  // namespace whisker::cuda
