// The gradient at the end of a residual block, joined with the input's gradient of the convolution
// behind it and apart, on memory of its own: what timing chooses between.
#pragma once

#include "core/cuda/chains/link_trial.h"

#include <optional>

namespace whisker::cuda {

class CudaConvolutionChains::BlockEndTrial : LinkTrial {
 public:
  BlockEndTrial(CudaConvolutionChains& chains, const Conv2dGeometry& g, const Tensor& x,
                const InputNorm& norm, const Tensor& w)
      : LinkTrial(chains, g, x, norm, w) {}

  void joined();
  void apart();

 private:
  void prepare();

  std::optional<AlignedInput> residual_;
  void* y_ = nullptr;         // the block's result, as x
  void* gradient_ = nullptr;  // the convolution's input's, as x
};

}  // namespace whisker::cuda
