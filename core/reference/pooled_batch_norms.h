// A batch norm and the max-pooling behind it, by their definition.
#pragma once

#include "core/pooled_batch_norms.h"

namespace whisker {

class ReferencePooledBatchNorms final : public PooledBatchNorms {
 public:
  explicit ReferencePooledBatchNorms(Backend& backend) : backend_(backend) {}

  void normalise(const TrainingNorm& norm, const Pool2dGeometry& pool, const PoolWinners& winners,
                 const Tensor& y) override;
  void backward(const TrainingNorm& norm, const Pool2dGeometry& pool, const PoolWinners& winners,
                const GradientParts& dy, const NormGradients& gradients) override;

 private:
  Backend& backend_;
};

}  // namespace whisker
