// Note [Choosing a convolution]
// Candidates are own kernels, cuDNN's engines and the request in several steps (unfused); the
// direct kernel computes what nothing else does. Untimed, the first of these serves that applies:
// the few-channel kernel (libraries take six times the memory floor on first layers), the depthwise
// kernels, the first engine of heuristic A that works (without libraries: direct), unfused, direct.
// Unfused rounds twice where a forward request has a bias or an activation alone: there it serves
// only where nothing else does, or where memory is short. Requests fused with norms are for the
// depthwise kernels alone. See also Note [Choosing an algorithm] in core/backend/autotuner.h.
#pragma once

#include "core/cuda/autotune/timed_algorithms.h"
#include "core/cuda/convolution/cudnn/cudnn_convolution.h"

namespace whisker::cuda {

class ConvAlgorithms final : public TimedAlgorithms<ConvolutionRequest, ConvolutionOperands> {
 public:
  using TimedAlgorithms::TimedAlgorithms;

  /// A forward request by plain ones and further kernels.
  void forward_unfused(const ConvolutionRequest& request, const ConvolutionOperands& operands);
  /// The gradients of both operands, each where its result is not null; `weights` is the request
  /// for the weights' gradient.
  void backward_unfused(const ConvolutionRequest& weights, const ConvolutionOperands& of_weights,
                        const ConvolutionOperands& of_input);

 private:
  Pointer named(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                const std::string& name) override;
  Choice untimed(const ConvolutionRequest& request, const ConvolutionOperands& operands) override;
  void propose(const ConvolutionRequest& request, const ConvolutionOperands& operands,
               const Pointer& present, const Search& search) override;
  void prepare(const ConvolutionRequest& request, const ConvolutionOperands& operands) override;

  std::shared_ptr<const cudnn::OperationGraph> graph_of(const ConvolutionRequest& request);
  /// Null where cudnn_convolution() is, or where the engine needs too large a workspace
  /// besides padded images. `graph` is graph_of(request).
  Pointer usable(std::shared_ptr<const cudnn::OperationGraph> graph,
                 const ConvolutionRequest& request, const cudnn::EngineChoice& engine);
  Pointer first_engine(const ConvolutionRequest& request);
  /// The few-channel or the depthwise kernel; null where neither computes the request.
  Pointer own_kernel(const ConvolutionRequest& request) const;
  /// Unfused, or the direct kernel; null where that does not compute the request.
  Pointer last_resort(const ConvolutionRequest& request);
};

}  // namespace whisker::cuda
