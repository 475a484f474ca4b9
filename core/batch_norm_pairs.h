// Two batch norms whose results are added, as the block of a residual network ends where its
// shortcut is a projection, for backends that have kernels over both: Backend::batch_norm_pairs().
// docs/cuda.md, "Pairs", says what that spares.
#pragma once

#include "core/training_norm.h"

namespace whisker {

/// Both norms are of one shape and dtype; relu or nothing, as `first` says, follows the sum.
class BatchNormPairs {
 public:
  virtual ~BatchNormPairs() = default;

  /// y = f(first + second), with the statistics of both batches and what becomes of the running
  /// ones.
  virtual void normalise(const TrainingNorm& first, const TrainingNorm& second,
                         const Tensor& y) = 0;
  /// dy.second is undefined unless adds_gradient_parts(). relu's slope follows from both tensors.
  virtual void backward(const TrainingNorm& first, const TrainingNorm& second,
                        const GradientParts& dy, const NormGradients& of_first,
                        const NormGradients& of_second) = 0;
};

}  // namespace whisker
