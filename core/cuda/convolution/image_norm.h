// The batch norm with its activation that a convolution applies to the image it reads.
#pragma once

#include "core/backend/geometry.h"

namespace whisker::cuda {

/// f32 (C) each; mean null: there is none.
struct ImageNorm {
  const float *mean = nullptr, *inv_std = nullptr, *gamma = nullptr, *beta = nullptr;
  ActivationSpec activation = {};  ///< one that a batch_norm computes
};

}  // namespace whisker::cuda
