// A chain's three passes over real operands, joined and apart, on memory of their own: what timing
// chooses between. The result stands in for its own gradient.
#pragma once

#include "core/cuda/chains/link_trial.h"

namespace whisker::cuda {

class CudaConvolutionChains::Trial : LinkTrial {
 public:
  Trial(CudaConvolutionChains& chains, const Conv2dGeometry& g, const Tensor& x, const Tensor& sums,
        const InputNorm& norm, const Tensor& w)
      : LinkTrial(chains, g, x, norm, w), sums_(sums) {}

  void joined();
  void apart();

 private:
  void prepare();
  void find_statistics();

  const Tensor& sums_;
  float* variance_ = nullptr;          // (c)
  void *z_ = nullptr, *dz_ = nullptr;  // the normalised x, its gradient
};

}  // namespace whisker::cuda
