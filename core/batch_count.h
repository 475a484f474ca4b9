// What counting a batch takes beside its logits and its loss, so that a backend may count in the
// kernel of the loss.
#pragma once

#include "core/step_state.h"
#include "core/tensor.h"

namespace whisker {

/// See Backend::count_batch.
struct BatchCount {
  StepRule rule = {};
  Tensor labels = {};          ///< i64 (rows), on the logits' device
  StepState* state = nullptr;  ///< in device memory
};

}  // namespace whisker
