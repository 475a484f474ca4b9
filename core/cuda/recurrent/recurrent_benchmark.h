// Random operands of both passes of recurrent layers, for timing: no initial states, all gradients.
#pragma once

#include "core/backend/recurrent_operands.h"
#include "core/cuda/runtime/context.h"

namespace whisker::cuda {

struct RecurrentBenchmark {
  /// For a `g` without lengths.
  RecurrentBenchmark(Context& context, const RecurrentGeometry& g, int64_t reserve_bytes);

  RecurrentInputs in;
  RecurrentOutputs out;
  RecurrentGradients gradients;
};

}  // namespace whisker::cuda
