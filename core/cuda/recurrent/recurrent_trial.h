// Random operands of both passes of recurrent layers, for timing: no initial states, all gradients
// wanted.
#pragma once

#include "core/cuda/gpu/context.h"
#include "core/recurrent.h"

namespace whisker::cuda {

struct RecurrentTrial {
  /// For a `g` without lengths.
  RecurrentTrial(Context& context, const RecurrentGeometry& g, int64_t reserve_bytes);

  RecurrentInputs in;
  RecurrentOutputs out;
  RecurrentGradients gradients;
};

}  // namespace whisker::cuda
