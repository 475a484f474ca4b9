// After a step whose loss or gradients were not finite: which tensor was the first.
#pragma once

#include <string>

#include "train/experiment.h"

namespace whisker {

/// Runs `batch` again, looking at every tensor in order: input, weights, each operator's result,
/// the loss, each gradient. Describes the first that holds a NaN or Inf.
std::string find_non_finite(Experiment& experiment, const Batch& batch);

}  // namespace whisker
