// What counting a batch takes besides its logits and its loss.
#pragma once

#include "core/backend/step_state.h"
#include "core/tensor/tensor.h"

namespace whisker {

/// See Backend::count_batch.
struct BatchCount {
  StepRule rule = {};
  Tensor labels = {};          ///< i64 (rows), on the logits' device
  StepState* state = nullptr;  ///< in device memory
};

}  // namespace whisker
