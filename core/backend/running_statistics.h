// The running statistics of a batch_norm, as kernels see them.
#pragma once

#include "core/tensor/tensor.h"

namespace whisker {

/// What training makes of a batch_norm's running statistics, (channels) each: the pending ones
/// become (1 - momentum) running + momentum batch. All undefined where there are none.
template <class Handle>
struct BasicRunningStatistics {
  Handle mean, variance;
  Handle pending_mean, pending_variance;
  double momentum = 0;

  auto map(auto&& fn) const {
    return BasicRunningStatistics<decltype(fn(mean))>{fn(mean), fn(variance), fn(pending_mean),
                                                      fn(pending_variance), momentum};
  }
};
using RunningStatistics = BasicRunningStatistics<Tensor>;

}  // namespace whisker
