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

/// True when an engine with these notes sums in f32, uses neither transforms (Winograd, FFT: larger
/// rounding errors) nor tf32 unless allowed, and is deterministic where `deterministic`.
bool admissible(const ConvolutionRequest& request, cudnn::NumericalNotes notes, bool deterministic);

/// One heuristic's admissible() proposals for the graph.
std::vector<cudnn::EngineChoice> convolution_engines(const cudnn::OperationGraph& graph,
                                                     const ConvolutionRequest& request,
                                                     cudnnBackendHeurMode_t heuristic,
                                                     bool deterministic);

class CudnnConvolution final : public ConvolutionAlgorithm {
 public:
  /// Null when the engine does not support the graph.
  static std::unique_ptr<CudnnConvolution> make(std::shared_ptr<const cudnn::OperationGraph> graph,
                                                const ConvolutionRequest& request,
                                                const cudnn::EngineChoice& engine);

  std::string name() const override { return plan_->choice().text(); }
  int64_t workspace_bytes() const override { return plan_->workspace_bytes(); }
  cudnn::NumericalNotes notes() const { return plan_->notes(); }
  void run(const KernelSite& site, const ConvolutionOperands& operands,
           void* workspace) const override;

 private:
  CudnnConvolution(std::unique_ptr<cudnn::Plan> plan, const ConvolutionRequest& request)
      : plan_(std::move(plan)), request_(request) {}

  std::unique_ptr<cudnn::Plan> plan_;
  ConvolutionRequest request_;
};

}  // namespace whisker::cuda
