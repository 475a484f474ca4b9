// The activations that fused operators take on the device: those whose derivative follows from
// their result. The kind is the same for all threads, so the switch costs no divergence.
#pragma once

#include "core/geometry.h"

#include <cuda_runtime.h>

namespace whisker::cuda {

/// f(x), f derivable_from_output. A NaN stays one.
__device__ inline float activate_fused(ActivationSpec f, float x) {
  switch (f.kind) {
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::leaky_relu:
      return x < 0 ? f.slope * x : x;
    case Activation::sigmoid:
      return 1 / (1 + expf(-x));
    case Activation::tanh:
      return tanhf(x);
    default:
      return x;
  }
}

/// f'(x) from y = f(x).
__device__ inline float slope_from_output(ActivationSpec f, float y) {
  switch (f.kind) {
    case Activation::relu:
      return y > 0 ? 1 : 0;
    case Activation::leaky_relu:
      return y > 0 ? 1 : f.slope;
    case Activation::sigmoid:
      return y * (1 - y);
    case Activation::tanh:
      return 1 - y * y;
    default:
      return 1;
  }
}

}  // namespace whisker::cuda
