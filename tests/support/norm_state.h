// The statistics of a batch_norm in tests: running ones, and memory for pending ones.
#pragma once

#include "core/ops/ops.h"

#include <cstdint>

namespace whisker::test {

/// (C) each: the running mean and variance the same for every channel.
inline BatchNormState norm_state(int64_t channels, const TensorOptions& options, double mean = 0.1,
                                 double variance = 2) {
  return {.running_mean = full({channels}, mean, options),
          .running_var = full({channels}, variance, options),
          .pending_mean = empty({channels}, options),
          .pending_var = empty({channels}, options)};
}

}  // namespace whisker::test
