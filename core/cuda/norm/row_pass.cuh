// What the passes of norms have in common: z of x.
#pragma once

#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/launch.h"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/norm/batch_norm.h"
#include "core/cuda/norm/two_channel_sums.cuh"

namespace whisker::cuda {

// z = (x - mean) scale + beta, scale = gamma inv_std. Forward and backward compute z by this one
// expression, so that both find the same sign.
__device__ inline float normalised(float x, float center, float scale, float shift) {
  return fmaf(x - center, scale, shift);
}

}  // namespace whisker::cuda
