// After a step whose loss or gradients were not finite: which tensor was the first.
#pragma once

#include "train/experiment.h"

#include <string>

namespace whisker {

/// Runs `batch` again as `pass`, looking at every tensor in order: input, carried states, weights,
/// each operator's result, the loss, each gradient, and those accumulated before. Describes the
/// first that holds a NaN or Inf.
std::string find_non_finite(Experiment& experiment, const Batch& batch, const Pass& pass);

/// The same for batch `number` of the run (from 1), at which training stopped changing anything.
/// Without `at_hand`, that batch, its update's batches are read once more. `states` are those that
/// the first batch to run begins with, where it continues another; of a language model.
std::string find_culprit(Experiment& experiment, int64_t number, const Batch* at_hand,
                         CarriedStates states = {});
/// "the weights NAME" of the first parameter or buffer that holds a NaN or Inf; "" without one.
std::string find_non_finite_weights(const Experiment& experiment);

}  // namespace whisker
