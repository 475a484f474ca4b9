// Whether a cuDNN engine honours padding that differs by side.
//
// Note [Padding that differs by side]
// PaddingMode::same pads one more element at the end where the total is odd. Some engines that
// cuDNN 9.14 proposes for weights' gradients ignore it and return wrong numbers without an error
// (H200: 2 engines, 50 of 8,627 proposals over all passes and types of 19 convolutions, none with
// equal padding). Without tf32 such an engine is sometimes the first proposal. So before an engine
// is used for such a request, it computes a small convolution with the same filter, stride and
// padding on random numbers; its result must agree with the direct kernel's.
#pragma once

#include "core/cuda/convolution/convolution.h"
#include "core/cuda/convolution/cudnn/cudnn_graph.h"
#include "core/cuda/memory/allocator.h"

#include <memory>
#include <optional>
#include <vector>

namespace whisker::cuda {

class PaddingCheck {
 public:
  /// Cheap: computes nothing until passed_by(), and nothing at all where padding is equal on both
  /// sides, as wherever a norm is fused.
  PaddingCheck(Context& context, Allocator& allocator, const ConvolutionRequest& request);

  /// True where `engine` honours the padding of the request. Throws OutOfMemory.
  bool passed_by(const cudnn::EngineChoice& engine);

 private:
  void prepare();
  std::vector<float> result_of(const ConvolutionAlgorithm& algorithm);

  Context& context_;
  Allocator& allocator_;
  const ConvolutionRequest small_;
  std::shared_ptr<const cudnn::OperationGraph> graph_;
  std::optional<Scratch> memory_;
  ConvolutionOperands operands_;
  void* result_ = nullptr;  // one of the operands
  int64_t count_ = 0;       // its elements
  std::vector<float> expected_;
};

}  // namespace whisker::cuda
