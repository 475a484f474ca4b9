// Finds the first tensor with a NaN or Inf after a step whose loss or gradients were not finite.
#pragma once

#include "core/backend/recurrent_operands.h"
#include "train/experiment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace whisker {

/// Runs `batch` again as `pass` and checks every tensor in order: input, carried states, weights,
/// each operator's result, the loss, each gradient, and gradients accumulated before. Describes the
/// first with a NaN or Inf.
std::string find_non_finite(Experiment& experiment, const Batch& batch, const Pass& pass);

/// What a search found, and the batch that it found it with.
struct Culprit {
  std::string text;
  std::optional<Batch> batch = {};  ///< none where nothing was found in one
  CarriedStates states = {};        ///< that it began with
  int64_t number = 0;               ///< of the run, from 1
};

/// The culprit in batch `number` of the run (from 1), the first that was not trained on. Without
/// `at_hand`, which is that batch, reads its update's batches again. `states`: a language model's
/// states before the first batch to run, if it continues another.
Culprit find_culprit(Experiment& experiment, int64_t number, const Batch* at_hand,
                     CarriedStates states = {});
/// "the weights NAME" or "the running statistic NAME": the first with a NaN or Inf; "" if none.
std::string find_non_finite_weights(const Experiment& experiment);
/// The description of a tensor's name in a checkpoint, including optimizer state and averages.
std::string saved_tensor_text(const ParameterArena& arena, std::string_view name);

}  // namespace whisker
