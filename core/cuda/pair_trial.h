// The end of a residual block with a projection, forward and backward, on memory of its own: joined
// with the input's gradient of the convolution behind it, which takes a residual that is ready, or
// as a pair of batch norms with the convolution apart. What timing chooses between.
#pragma once

#include "core/cuda/batch_norm_pair.h"
#include "core/cuda/link_trial.h"

#include <optional>

namespace whisker::cuda {

class CudaConvolutionChains::PairTrial : LinkTrial {
 public:
  /// norm.residual_norm is not null.
  PairTrial(CudaConvolutionChains& chains, const Conv2dGeometry& g, const Tensor& x,
            const InputNorm& norm, const Tensor& w)
      : LinkTrial(chains, g, x, norm, w) {}

  void joined();
  void apart();

 private:
  void prepare();
  /// The projection's result and its norm, which makes link_.residual of it.
  kernels::PairedColumns projection() const;
  kernels::PairedColumns body() const;

  std::optional<AlignedInput> projected_, gamma_, beta_;
  float *mean_ = nullptr, *inverse_deviation_ = nullptr;
  kernels::PairedColumnGradients gradients_;  // of the projection's norm
  void* y_ = nullptr;                         // the block's result, as x
  void* gradient_ = nullptr;                  // the convolution's input's, as x
};

}  // namespace whisker::cuda
