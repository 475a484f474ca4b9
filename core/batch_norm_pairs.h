// Two batch norms whose results are added, as the block of a residual network ends where its
// shortcut is a projection, for backends that have kernels over both: Backend::batch_norm_pairs().
// docs/cuda.md, "Pairs", says what that spares.
#pragma once

#include "core/backend.h"
#include "core/geometry.h"
#include "core/tensor.h"

namespace whisker {

/// One of the two, in training: (x - mean) inverse_deviation gamma + beta.
struct PairedNorm {
  BatchNormGeometry geometry;  ///< of x, without a residual
  Tensor x;
  Tensor gamma, beta;              ///< (C)
  Tensor mean, inverse_deviation;  ///< (C), f32 (f64 for f64 x); forward writes them
  Tensor sums = {};                ///< forward: Convolved::sums of x, or undefined
  RunningStatistics running = {};  ///< forward
};

/// Undefined ones are not wanted.
struct PairedGradients {
  Tensor dx, dgamma, dbeta;
};

/// Both norms are of one shape and dtype; relu or nothing, as `first` says, follows the sum.
class BatchNormPairs {
 public:
  virtual ~BatchNormPairs() = default;

  /// y = f(first + second), with the statistics of both batches and what becomes of the running
  /// ones.
  virtual void normalise(const PairedNorm& first, const PairedNorm& second, const Tensor& y) = 0;
  /// dy.second is undefined unless adds_gradient_parts(). relu's slope follows from both tensors.
  virtual void backward(const PairedNorm& first, const PairedNorm& second, const GradientParts& dy,
                        const PairedGradients& of_first, const PairedGradients& of_second) = 0;
};

}  // namespace whisker
