// The backend's batch norms that are fused with an addition or with max-pooling: statistics of each
// norm, then passes over both operands.
#pragma once

#include "core/backend/fused_ops.h"
#include "core/cuda/memory/allocator.h"

namespace whisker::cuda {

class CudaFusedAddNorms final : public FusedAddNorms {
 public:
  CudaFusedAddNorms(Context& context, Allocator& allocator)
      : context_(context), allocator_(allocator) {}

  void normalise(const TrainingNorm& first, const TrainingNorm& second, const Tensor& y) override;
  void backward(const TrainingNorm& first, const TrainingNorm& second, const UnsummedGrads& dy,
                const AddNormsGradients& gradients) override;

 private:
  Context& context_;
  Allocator& allocator_;
};

/// Forward, one pass pools and normalises; backward, sums over windows, then one pass that gathers
/// and makes the gradient.
class CudaFusedNormPool final : public FusedNormPool {
 public:
  CudaFusedNormPool(Context& context, Allocator& allocator)
      : context_(context), allocator_(allocator) {}

  void normalise(const TrainingNorm& norm, const PoolArgmax& argmax, const Tensor& y) override;
  void backward(const TrainingNorm& norm, const PoolArgmax& argmax, const UnsummedGrads& dy,
                const NormGradients& gradients) override;

 private:
  Context& context_;
  Allocator& allocator_;
};

}  // namespace whisker::cuda
