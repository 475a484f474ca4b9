// The running statistics of a batch_norm, as kernels see them.
#pragma once

#include "core/tensor/tensor.h"

namespace whisker {

/// What training makes of a batch_norm's running statistics, (channels) each: the pending ones
/// become (1 - momentum) running + momentum batch. All undefined where there are none.
struct RunningStatistics {
  Tensor mean, variance;
  Tensor pending_mean, pending_variance;
  double momentum = 0;
};

}  // namespace whisker
