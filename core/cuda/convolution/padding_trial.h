// Whether an engine of cuDNN's pads as it is asked to.
//
// Note [Padding that differs by side]
// PaddingMode::same pads more behind than before where the sum is odd. Of the engines that cuDNN
// 9.14 proposes for weights' gradients of such convolutions two leave out the padding behind and
// return other numbers without an error (H200; 50 of 8,627 proposals over all passes and types of
// 19 convolutions, none of even padding). With tf32 not allowed one of them comes first for some.
// So an engine that is to compute such a request first computes a small one with the same filter,
// stride and padding; what it makes of random numbers must be what the direct kernel makes of them.
#pragma once

#include "core/cuda/convolution/convolution.h"
#include "core/cuda/convolution/cudnn_graph.h"
#include "core/cuda/memory/allocator.h"

#include <memory>
#include <optional>
#include <vector>

namespace whisker::cuda {

class PaddingTrial {
 public:
  /// Cheap: a convolution is computed when an engine is asked about, and where padding is even,
  /// never. No request of a chain pads otherwise.
  PaddingTrial(Context& context, Allocator& allocator, const ConvolutionRequest& request);

  /// True where `engine` keeps the padding of the request. Throws OutOfMemory where memory is short
  /// of the trial.
  bool kept_by(const cudnn::EngineChoice& engine);

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
