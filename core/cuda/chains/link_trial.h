// What both kinds of links are timed on: their operands, aligned, and memory of its own for what
// their passes write.
#pragma once

#include "core/cuda/chains/convolution_chains.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/tuning/driver_memory.h"

#include <optional>

namespace whisker::cuda {

class CudaConvolutionChains::LinkTrial {
 protected:
  /// Cheap: memory is taken when something is computed first.
  LinkTrial(CudaConvolutionChains& chains, const Conv2dGeometry& g, const Tensor& x,
            const InputNorm& norm, const Tensor& w)
      : chains_(chains), g_(g), x_(x), norm_(norm), w_(w) {}

  /// Fills of link_ what all links have.
  void take_operands();
  int64_t results() const { return g_.n * g_.h_out * g_.w_out * g_.c_out; }

  CudaConvolutionChains& chains_;
  const Conv2dGeometry& g_;
  const Tensor& x_;
  const InputNorm& norm_;
  const Tensor& w_;
  DriverMemories memory_{chains_.allocator_};
  Link link_;
  bool prepared_ = false;

 private:
  std::optional<AlignedInput> in_, filter_, gamma_, beta_;
};

}  // namespace whisker::cuda
