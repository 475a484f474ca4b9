// The backend's batch norms with max-pooling behind them: statistics, then one pass that pools and
// normalises; backward the sums over windows, then one pass that gathers and makes the gradient.
#pragma once

#include "core/cuda/memory/allocator.h"
#include "core/pooled_batch_norms.h"

namespace whisker::cuda {

class CudaPooledBatchNorms final : public PooledBatchNorms {
 public:
  CudaPooledBatchNorms(Context& context, Allocator& allocator)
      : context_(context), allocator_(allocator) {}

  void normalise(const TrainingNorm& norm, const Pool2dGeometry& pool, const PoolWinners& winners,
                 const Tensor& y) override;
  void backward(const TrainingNorm& norm, const Pool2dGeometry& pool, const PoolWinners& winners,
                const GradientParts& dy, const NormGradients& gradients) override;

 private:
  Context& context_;
  Allocator& allocator_;
};

}  // namespace whisker::cuda
