// What timing chooses between: batch norm and convolution fused and unfused, over real operands and
// memory of its own.
#pragma once

#include "core/cuda/autotune/driver_memory.h"
#include "core/cuda/fused_conv_norm/fused_conv_norm.h"
#include "core/cuda/memory/aligned.h"

#include <optional>

namespace whisker::cuda {

/// The operands of both benchmarks, aligned.
class CudaFusedConvNorm::Benchmark {
 public:
  /// Cheap: memory is taken when something is computed first.
  Benchmark(CudaFusedConvNorm& owner, const Conv2dGeometry& g, const InputNorm& norm,
            const Tensor& w)
      : owner_(owner), g_(g), norm_(norm), w_(w) {}

 protected:
  /// Fills of operands_ what both have.
  void take_operands();
  int64_t results() const { return g_.n * g_.h_out * g_.w_out * g_.c_out; }

  CudaFusedConvNorm& owner_;
  const Conv2dGeometry& g_;
  const InputNorm& norm_;
  const Tensor& w_;
  DriverMemories memory_{owner_.allocator_};
  Operands operands_;
  bool prepared_ = false;

 private:
  std::optional<AlignedInput> in_, filter_, gamma_, beta_;
};

/// All three passes of a convolution behind a norm. The result stands in for its own gradient.
class CudaFusedConvNorm::ConvNormBenchmark : Benchmark {
 public:
  using Benchmark::Benchmark;

  void fused();
  void unfused();

 private:
  void prepare();
  void find_statistics();

  float* variance_ = nullptr;          // (c)
  void *z_ = nullptr, *dz_ = nullptr;  // the normalised x, its gradient
};

/// The gradient of a residual tail with the convolution's input gradient.
class CudaFusedConvNorm::ResidualTailBenchmark : Benchmark {
 public:
  using Benchmark::Benchmark;

  void fused();
  void unfused();

 private:
  void prepare();

  std::optional<AlignedInput> residual_;
  void* y_ = nullptr;         // the block's result, as x
  void* gradient_ = nullptr;  // the convolution's input's, as x
};

}  // namespace whisker::cuda
