// The files that `whisker evaluate` writes.
#pragma once

#include "apps/commands/calibrated_weights.h"
#include "apps/commands/evaluated_examples.h"

namespace whisker {

struct EvaluateOutputs {
  EvaluatedFiles& reports;
  CalibratedWeights& calibrated;
};

}  // namespace whisker
