// Two batch norms whose results are added, by their definition: one after the other.
#pragma once

#include "core/batch_norm_pairs.h"

namespace whisker {

class ReferenceBatchNormPairs final : public BatchNormPairs {
 public:
  explicit ReferenceBatchNormPairs(Backend& backend) : backend_(backend) {}

  void normalise(const TrainingNorm& first, const TrainingNorm& second, const Tensor& y) override;
  void backward(const TrainingNorm& first, const TrainingNorm& second, const GradientParts& dy,
                const NormGradients& of_first, const NormGradients& of_second) override;

 private:
  Backend& backend_;
};

}  // namespace whisker
