// What timing chooses between: batch norm and convolution fused and unfused, over real operands and
// memory of its own.
#pragma once

#include "core/cuda/autotune/driver_memory.h"
#include "core/cuda/fused_conv_norm/fused_conv_norm.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/norm/batch_norm.h"

namespace whisker::cuda {

/// The operands of both benchmarks, aligned.
class CudaFusedConvNorm::Benchmark : public FusionBenchmark {
 protected:
  Benchmark(CudaFusedConvNorm& owner, const Conv2dGeometry& g, const TrainingNorm& norm,
            const Tensor& w);

  void* as_x() { return memory_.take(x_bytes_); }
  void batch_norm_backward(const kernels::BatchNormGradient& gradient);

  CudaFusedConvNorm& owner_;
  AlignedInput in_, filter_, gamma_, beta_;
  int64_t x_bytes_;
  DriverMemories memory_{owner_.allocator_};
  Operands operands_;
};

/// All three passes of a convolution behind a norm. The result stands in for its own gradient.
class CudaFusedConvNorm::ConvNormBenchmark final : public Benchmark {
 public:
  ConvNormBenchmark(CudaFusedConvNorm& owner, const Conv2dGeometry& g, const TrainingNorm& norm,
                    const Tensor& w);

  void fused() override;
  void unfused() override;

 private:
  kernels::BatchNorm statistics_;      // of x or of given sums
  void *z_ = nullptr, *dz_ = nullptr;  // the normalised x, its gradient
};

/// The gradient of a residual tail with the convolution's input gradient.
class CudaFusedConvNorm::ResidualTailBenchmark final : public Benchmark {
 public:
  ResidualTailBenchmark(CudaFusedConvNorm& owner, const Conv2dGeometry& g, const TrainingNorm& norm,
                        const Tensor& w);

  void fused() override;
  void unfused() override;

 private:
  AlignedInput residual_;
  void* y_ = nullptr;         // the block's result, as x
  void* gradient_ = nullptr;  // the convolution's input's, as x
};

}  // namespace whisker::cuda
