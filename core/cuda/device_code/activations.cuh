// The activations in f32: f, f' and f'', see core/reference/activation_functions.h. `saved` is y =
// f(x) where grad_from_output(), else x.
#pragma once

#include "core/backend/geometry.h"

namespace whisker::cuda {

// Where exp overflows the quotient is 0, the right limit.
__device__ inline float sigmoid_of(float x) {
  return 1.0f / (1.0f + expf(-x));
}
__device__ inline float normal_density(float x) {
  return expf(-0.5f * x * x) * 0.3989422804014327f;
}

// Keeps NaN.
__device__ inline float clipped(float x, float high) {
  return x < 0 ? 0 : x > high ? high : x;
}

/// f(x)
__device__ inline float activate(ActivationSpec f, float x) {
  switch (f.kind) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;  // keeps NaN
    case Activation::leaky_relu:
      return x < 0 ? f.slope * x : x;
    case Activation::sigmoid:
      return sigmoid_of(x);
    case Activation::tanh:
      return tanhf(x);
    case Activation::gelu:
      return x * normcdff(x);
    case Activation::silu:
      return x * sigmoid_of(x);
    case Activation::softplus:
      return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
    case Activation::relu6:
      return clipped(x, 6);
    case Activation::hard_sigmoid:
      return clipped(x + 3, 6) * (1.0f / 6);
    case Activation::hard_swish:
      return x * clipped(x + 3, 6) * (1.0f / 6);
  }
  return x;
}

/// f'(x) dy; relu's: see Note [relu's gradient and NaN] in core/reference/activation_functions.h.
__device__ inline float activation_gradient(ActivationSpec f, float saved, float dy) {
  const float x = saved;
  const float y = saved;
  switch (f.kind) {
    case Activation::none:
      return dy;
    case Activation::relu:
      return y <= 0 ? 0 : dy;
    case Activation::leaky_relu:
      return y > 0 ? dy : f.slope * dy;
    case Activation::sigmoid:
      return y * (1 - y) * dy;
    case Activation::tanh:
      return (1 - y * y) * dy;
    case Activation::gelu:
      return (normcdff(x) + x * normal_density(x)) * dy;
    case Activation::silu: {
      const float s = sigmoid_of(x);
      return s * (1 + x * (1 - s)) * dy;
    }
    case Activation::softplus:
      return sigmoid_of(x) * dy;
    case Activation::relu6:
      return y <= 0 || y >= 6 ? 0 : dy;
    case Activation::hard_sigmoid:
      return y <= 0 || y >= 1 ? 0 : dy * (1.0f / 6);
    case Activation::hard_swish:
      return x <= -3 ? 0 : x >= 3 ? dy : (2 * x + 3) * (1.0f / 6) * dy;
  }
  return dy;
}

/// f''(x)
__device__ inline float activation_curvature(ActivationSpec f, float saved) {
  const float x = saved;
  const float y = saved;
  switch (f.kind) {
    case Activation::none:
    case Activation::relu:
    case Activation::leaky_relu:
    case Activation::relu6:
    case Activation::hard_sigmoid:
      return 0;
    case Activation::sigmoid:
      return y * (1 - y) * (1 - 2 * y);
    case Activation::tanh:
      return -2 * y * (1 - y * y);
    case Activation::gelu:
      return (2 - x * x) * normal_density(x);
    case Activation::silu: {
      const float s = sigmoid_of(x);
      return s * (1 - s) * (2 + x * (1 - 2 * s));
    }
    case Activation::softplus: {
      const float s = sigmoid_of(x);
      return s * (1 - s);
    }
    case Activation::hard_swish:
      return x <= -3 || x >= 3 ? 0 : 1.0f / 3;
  }
  return 0;
}

}  // namespace whisker::cuda
