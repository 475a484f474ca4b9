// The backend's convolutions fused with batch norms: depthwise ones by requests to ConvAlgorithms,
// pointwise ones by pointwise.h.
#pragma once

#include "core/backend/fused_ops.h"
#include "core/cuda/convolution/conv_algorithms.h"
#include "core/cuda/memory/allocator.h"

namespace whisker::cuda {

class CudaFusedConvNorm final : public FusedConvNorm {
 public:
  CudaFusedConvNorm(Context& context, Allocator& allocator, ConvAlgorithms& algorithms)
      : context_(context), allocator_(allocator), algorithms_(algorithms) {}

  void convolve(const Conv2dGeometry& g, const AffineInputs& in, const SummedOutput& out) override;
  void statistics(const TrainingNorm& norm) override;
  bool takes_norm(const Conv2dGeometry& g) override;
  void convolve_normalised(const Conv2dGeometry& g, const TrainingNorm& norm, const Tensor& w,
                           const SummedOutput& out) override;
  void convolve_normalised_backward(const Conv2dGeometry& g, const TrainingNorm& norm,
                                    const Tensor& w, const ConvNormGradients& gradients) override;

 private:
  void pointwise_backward(const Conv2dGeometry& g, const TrainingNorm& norm, const Tensor& w,
                          const ConvNormGradients& gradients);
  void depthwise(ConvolutionPass pass, const Conv2dGeometry& g, const TrainingNorm& norm,
                 ConvolutionOperands operands);
  void depthwise_backward(const Conv2dGeometry& g, const TrainingNorm& norm, const Tensor& w,
                          const ConvNormGradients& gradients);

  Context& context_;
  Allocator& allocator_;
  ConvAlgorithms& algorithms_;
};

}  // namespace whisker::cuda
