// A chain's three passes over real operands, joined and apart, on memory of their own: what timing
// chooses between. The result stands in for its own gradient.
#pragma once

#include "core/cuda/aligned.h"
#include "core/cuda/convolution_chains.h"
#include "core/cuda/stopwatch.h"

#include <optional>

namespace whisker::cuda {

class CudaConvolutionChains::Trial {
 public:
  /// Cheap: memory is taken by the first call of a method below.
  Trial(CudaConvolutionChains& chains, const Conv2dGeometry& g, const Tensor& x, const Tensor& sums,
        const InputNorm& norm, const Tensor& w)
      : chains_(chains), g_(g), x_(x), sums_(sums), norm_(norm), w_(w) {}

  void joined();
  void apart();

 private:
  void prepare();
  void find_statistics();

  CudaConvolutionChains& chains_;
  const Conv2dGeometry& g_;
  const Tensor &x_, &sums_;
  const InputNorm& norm_;
  const Tensor& w_;
  std::optional<AlignedInput> in_, filter_, gamma_, beta_;
  DriverMemories memory_;
  Link link_;
  float* variance_ = nullptr;          // (c)
  void *z_ = nullptr, *dz_ = nullptr;  // the normalised x, its gradient
};

}  // namespace whisker::cuda
