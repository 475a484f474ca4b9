// The backend's chains of convolutions and batch norms: which convolutions take part, and what
// runs between them.
#pragma once

#include "core/convolution_chains.h"
#include "core/cuda/chains/chain_plans.h"
#include "core/cuda/memory/allocator.h"

namespace whisker::cuda {

class CudaConvolutionChains final : public ConvolutionChains {
 public:
  CudaConvolutionChains(Context& context, Allocator& allocator, const CudaOptions& options,
                        ConvolutionPlans& plans, ChainPlans& links)
      : context_(context), allocator_(allocator), options_(options), plans_(plans), links_(links) {}

  bool convolve(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y,
                const Tensor& sums) override;
  void statistics(const BatchNormGeometry& g, const Tensor& x, const Tensor& sums,
                  const BatchStatistics& out, const RunningStatistics& running) override;
  bool prefers_joined(const Conv2dGeometry& g, const Tensor& x, const Tensor& sums,
                      const InputNorm& norm, const Tensor& w) override;
  void convolve_normalised(const Conv2dGeometry& g, const Tensor& x, const InputNorm& norm,
                           const Tensor& w, const Tensor& y, const Tensor& sums) override;
  void convolve_normalised_backward(const Conv2dGeometry& g, const Tensor& x, const InputNorm& norm,
                                    const Tensor& w, const Tensor& dy,
                                    const InputNormGradients& out) override;
  void block_end_backward(const Conv2dGeometry& g, const Tensor& x, const InputNorm& norm,
                          const Tensor& w, const Tensor& dy, const Tensor& others,
                          const InputNormGradients& out) override;

 private:
  /// Both ways to compute a link, to be timed.
  class LinkTrial;
  class Trial;
  class BlockEndTrial;
  static constexpr int64_t f16_bytes = 2;
  /// Memory of a batch_norm, x (rows, channels), and the convolution behind it. What a pass does
  /// not touch is null.
  struct Link {
    Conv2dGeometry convolution;
    BatchNormGeometry norm;
    void *x = nullptr, *w = nullptr, *y = nullptr;
    float* sums = nullptr;  // of y
    float *gamma = nullptr, *beta = nullptr, *mean = nullptr, *inverse_deviation = nullptr;
    void* folded = nullptr;
    // At the end of a block, as x: added before relu; the gradient of relu's other readers.
    void *residual = nullptr, *others = nullptr;
    void *dy = nullptr, *dx = nullptr, *dw = nullptr;  // dx, dw null: not wanted
    void* dz = nullptr;                                // the residual's; null: not wanted
    float *dgamma = nullptr, *dbeta = nullptr;
  };
  ConvolutionRequest request(ConvolutionPass pass, const Conv2dGeometry& g) const {
    return {.pass = pass, .geometry = g, .tf32 = options_.tf32 && !options_.deterministic};
  }
  // cuDNN's chains do not repeat, though no engine carries the note: gradients of one and the same
  // step differed in their last bits on an H200 (9.14). Nor is there a trial of how they pad.
  bool allowed(const Conv2dGeometry& g) const {
    return options_.chaining != ConvolutionChaining::never && !options_.deterministic &&
           pads_evenly(g);
  }
  bool convolve(const Conv2dGeometry& g, const ConvolutionOperands& operands);
  void pass_over_result(const Conv2dGeometry& g, const void* y);
  void forward(const Link& link);
  void backward_input(const Link& link);
  void backward_weights(const Link& link);
  void backward(const Conv2dGeometry& g, const Tensor& x, const InputNorm& norm, const Tensor& w,
                const Tensor& dy, const Tensor& others, const InputNormGradients& out);

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  ConvolutionPlans& plans_;
  ChainPlans& links_;
};

}  // namespace whisker::cuda
