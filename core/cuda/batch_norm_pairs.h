// The backend's pairs of batch norms: statistics of each, then passes over both.
#pragma once

#include "core/batch_norm_pairs.h"
#include "core/cuda/memory/allocator.h"

namespace whisker::cuda {

class CudaBatchNormPairs final : public BatchNormPairs {
 public:
  CudaBatchNormPairs(Context& context, Allocator& allocator)
      : context_(context), allocator_(allocator) {}

  void normalise(const TrainingNorm& first, const TrainingNorm& second, const Tensor& y) override;
  void backward(const TrainingNorm& first, const TrainingNorm& second, const GradientParts& dy,
                const NormGradients& of_first, const NormGradients& of_second) override;

 private:
  Context& context_;
  Allocator& allocator_;
};

}  // namespace whisker::cuda
