// The gradient at the end of a residual block, joined with the input's gradient of the convolution
// behind it and apart, on memory of its own: what timing chooses between.
#pragma once

#include "core/cuda/aligned.h"
#include "core/cuda/convolution_chains.h"
#include "core/cuda/stopwatch.h"

#include <optional>

namespace whisker::cuda {

class CudaConvolutionChains::BlockEndTrial {
 public:
  /// Cheap: memory is taken by the first call of a method below.
  BlockEndTrial(CudaConvolutionChains& chains, const Conv2dGeometry& g, const Tensor& x,
                const InputNorm& norm, const Tensor& w)
      : chains_(chains), g_(g), x_(x), norm_(norm), w_(w) {}

  void joined();
  void apart();

 private:
  void prepare();

  CudaConvolutionChains& chains_;
  const Conv2dGeometry& g_;
  const Tensor& x_;
  const InputNorm& norm_;
  const Tensor& w_;
  std::optional<AlignedInput> in_, filter_, gamma_, beta_, residual_;
  DriverMemories memory_;
  Link link_;
  void* y_ = nullptr;         // the block's result, as x
  void* gradient_ = nullptr;  // the convolution's input's, as x
};

}  // namespace whisker::cuda
