// The device state of one optimizer update, for tests that call optimizer_step themselves.
#pragma once

#include "core/backend/optimizer_step.h"
#include "core/parameters/step_memory.h"

namespace whisker::test {

/// What begin_update leaves before update number `n` of `step`, at this rate and gradient factor.
inline StepState update_state(const OptimizerStep& step, int64_t n, double learning_rate,
                              double gradient_factor = 1) {
  return {.inputs = {.learning_rate = learning_rate},
          .gradient_factor = gradient_factor,
          .steps = n,
          .correction1 = 1 - integer_power(step.beta1, n),
          .correction2 = 1 - integer_power(step.beta2, n),
          .applies = 1};
}

}  // namespace whisker::test
