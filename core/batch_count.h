// What counting a batch takes beside its logits and its loss: plain data, so that it can ride in
// the kernel of the loss.
#pragma once

#include "core/step_state.h"
#include "core/tensor.h"

namespace whisker {

/// See Backend::count_batch.
struct BatchCount {
  StepRule rule = {};
  Tensor labels = {};          ///< i64 (rows)
  StepState* state = nullptr;  ///< in device memory
};

}  // namespace whisker
