// A batch norm in training, as operators that join it with others hand it to backends:
// core/batch_norm_pairs.h, core/pooled_batch_norms.h.
#pragma once

#include "core/backend.h"
#include "core/geometry.h"
#include "core/tensor.h"

namespace whisker {

/// (x - mean) inverse_deviation gamma + beta, with the statistics of the batch.
struct TrainingNorm {
  BatchNormGeometry geometry;  ///< of x, without a residual
  Tensor x;
  Tensor gamma, beta;              ///< (C)
  Tensor mean, inverse_deviation;  ///< (C), f32 (f64 for f64 x); forward writes them
  Tensor sums = {};                ///< forward: Convolved::sums of x, or undefined
  RunningStatistics running = {};  ///< forward
};

/// Undefined ones are not wanted.
struct NormGradients {
  Tensor dx, dgamma, dbeta;
};

}  // namespace whisker
