// Convolution passes as cuDNN graphs: the engines that may compute a request, and the algorithm of
// an engine.
//
// Note [Padding that differs by side]
// PaddingMode::same pads one more element at the end where the total is odd. Some engines that
// cuDNN 9.14 proposes for weights' gradients ignore it and return wrong numbers without an error
// (H200: 2 engines, 50 of 8,627 proposals over all passes and types of 19 convolutions, none with
// equal padding). Without tf32 such an engine is sometimes the first proposal. So cuDNN gets an x
// with that row and column of zeros; of the gradient of such an x, they are cut off.
#pragma once

#include "core/cuda/convolution/convolution.h"
#include "core/cuda/cudnn/cudnn_graph.h"

namespace whisker::cuda {

/// The graph of `request`; null when cuDNN has no such operation. It may contain relu, but no other
/// activation (cuDNN 9.19 has no leaky_relu for odd channel counts, for example).
std::shared_ptr<const cudnn::OperationGraph> convolution_graph(const cudnn::Target& target,
                                                               const ConvolutionRequest& request);

/// The engine's algorithm, whose name is the engine's text. Null unless the engine supports the
/// graph, sums in f32, uses neither transforms (Winograd, FFT: larger rounding errors) nor tf32
/// unless allowed, and is deterministic where `deterministic`.
ConvolutionAlgorithmPointer cudnn_convolution(std::shared_ptr<const cudnn::OperationGraph> graph,
                                              const ConvolutionRequest& request,
                                              const cudnn::EngineChoice& engine,
                                              bool deterministic);

}  // namespace whisker::cuda
