// The backend's fused convolutions and batch norms: which convolutions take part, and what
// runs between them.
#pragma once

#include "core/backend/fused_ops.h"
#include "core/cuda/fused_conv_norm/fused_conv_algorithms.h"
#include "core/cuda/memory/allocator.h"

namespace whisker::cuda {

class CudaFusedConvNorm final : public FusedConvNorm {
 public:
  CudaFusedConvNorm(Context& context, Allocator& allocator, const CudaOptions& options,
                    ConvAlgorithms& plans, FusedConvAlgorithms& fusion)
      : context_(context),
        allocator_(allocator),
        options_(options),
        algorithms_(plans),
        fusion_(fusion) {}

  bool convolve(const Conv2dGeometry& g, const AffineInputs& in, const SummedOutput& out) override;
  void statistics(const TrainingNorm& norm) override;
  bool prefers_fused(const Conv2dGeometry& g, const TrainingNorm& norm, const Tensor& w) override;
  bool convolve_normalised(const Conv2dGeometry& g, const TrainingNorm& norm, const Tensor& w,
                           const SummedOutput& out) override;
  void convolve_normalised_backward(const Conv2dGeometry& g, const TrainingNorm& norm,
                                    const Tensor& w, const ConvNormGradients& gradients) override;

 private:
  /// Both ways to compute, to be timed.
  class Benchmark;
  class ConvNormBenchmark;
  class ResidualTailBenchmark;
  static constexpr int64_t f16_bytes = 2;
  /// Memory of a batch_norm, x (rows, channels), and the convolution behind it. What a pass does
  /// not touch is null.
  struct Operands {
    Conv2dGeometry convolution;
    BatchNormGeometry norm;
    void *x = nullptr, *w = nullptr, *y = nullptr;
    float* sums = nullptr;  // of y
    float *gamma = nullptr, *beta = nullptr, *mean = nullptr, *inv_std = nullptr;
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
  // cuDNN's fused kernels do not repeat, though no engine carries the note: gradients of one and
  // the same step differed in their last bits on an H200 (9.14). Nor can they be padded explicitly.
  bool allowed(const Conv2dGeometry& g) const {
    return options_.conv_norm_fusion != ConvNormFusion::never && !options_.deterministic &&
           pads_evenly(g);
  }
  bool convolve(const Conv2dGeometry& g, const ConvolutionOperands& operands);
  void pass_over_result(const Conv2dGeometry& g, const void* y);
  void forward(const Operands& o);
  void backward_input(const Operands& o);
  void backward_weights(const Operands& o);
  static bool is_pointwise(const Conv2dGeometry& g, const TrainingNorm& norm) {
    return fuses_pointwise_norm(g) && !norm.residual.defined();
  }
  void pointwise(const Conv2dGeometry& g, const TrainingNorm& norm, const Tensor& w,
                 const SummedOutput& out);
  void pointwise_backward(const Conv2dGeometry& g, const TrainingNorm& norm, const Tensor& w,
                          const ConvNormGradients& gradients);
  void depthwise(ConvolutionPass pass, const Conv2dGeometry& g, const TrainingNorm& norm,
                 ConvolutionOperands operands);
  void depthwise_backward(const Conv2dGeometry& g, const TrainingNorm& norm, const Tensor& w,
                          const ConvNormGradients& gradients);

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  ConvAlgorithms& algorithms_;
  FusedConvAlgorithms& fusion_;
};

}  // namespace whisker::cuda
