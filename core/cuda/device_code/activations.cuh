// The activations in f32: f, f' and f'', see core/reference/activation_functions.h. `saved` is y =
// f(x) where grad_from_output(), else x.
#pragma once

#include "core/backend/geometry.h"

namespace whisker::cuda {

/// 2^x and 1/x, one instruction each, to 2^-22 and 2^-23 of the result; below 2^-126 it is 0.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// s = sigmoid(x) and 1 - s without cancellation. Within 3e-7. Where exp overflows s is 0, the
/// right limit.
struct Sigmoid {
  float s, rest;
};
__device__ inline Sigmoid sigmoid_and_rest(float x) {
  const float e = exp2_approx(x * -1.44269504f);
  const float s = reciprocal_approx(1.0f + e);
  return {s, fminf(e, 1e30f) * s};
}
__device__ inline float sigmoid_of(float x) {
  return sigmoid_and_rest(x).s;
}

/// The standard normal distribution function and its density, which share exp(-x^2 / 2). What is
/// left of the tail is a function of 1 / (1 + 0.34 |x|), which a minimax polynomial fits. Over all
/// floats the distribution is within 5e-7; relative to itself within 2e-6 from x = -4 on and 1e-5
/// from -13 on, below which it becomes 0.
struct Normal {
  float distribution, density;
};
__device__ inline Normal normal_of(float x) {
  const float e = exp2_approx(x * -0.72134752f * x);
  const float t = reciprocal_approx(fmaf(0.34f, fabsf(x), 1.0f));
  float tail = 0.047051513f;
  tail = fmaf(tail, t, -0.21091263f);
  tail = fmaf(tail, t, 0.28423265f);
  tail = fmaf(tail, t, -0.05169439f);
  tail = fmaf(tail, t, 0.16912246f);
  tail = fmaf(tail, t, 0.12547007f);
  tail = fmaf(tail, t, 0.13678403f);
  tail = fmaf(tail, t, -5.369337e-5f) * e;
  return {x < 0 ? tail : 1 - tail, e * 0.39894228f};
}

/// Keeps NaN. One selection at a time: nested ones become branches.
__device__ inline float clipped(float x, float low, float high) {
  const float above = x < low ? low : x;
  return above > high ? high : above;
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
      return x * normal_of(x).distribution;
    case Activation::silu:
      return x * sigmoid_of(x);
    case Activation::softplus:
      return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
    case Activation::relu6:
      return clipped(x, 0, 6);
    case Activation::hard_sigmoid:
      return clipped(x + 3, 0, 6) * (1.0f / 6);
    case Activation::hard_swish:
      return x * clipped(x + 3, 0, 6) * (1.0f / 6);
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
    case Activation::gelu: {
      const Normal n = normal_of(x);
      return fmaf(x, n.density, n.distribution) * dy;
    }
    case Activation::silu: {
      const auto [s, rest] = sigmoid_and_rest(x);
      return s * fmaf(x, rest, 1.0f) * dy;
    }
    case Activation::softplus:
      return sigmoid_of(x) * dy;
    case Activation::relu6:
      return y <= 0 || y >= 6 ? 0 : dy;
    case Activation::hard_sigmoid:
      return y <= 0 || y >= 1 ? 0 : dy * (1.0f / 6);
    case Activation::hard_swish:
      dy *= x >= 3 ? 1 : fmaf(x, 1.0f / 3, 0.5f);
      return x <= -3 ? 0 : dy;
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
      return (2 - x * x) * normal_of(x).density;
    case Activation::silu: {
      const auto [s, rest] = sigmoid_and_rest(x);
      return s * rest * (2 + x * (rest - s));
    }
    case Activation::softplus: {
      const auto [s, rest] = sigmoid_and_rest(x);
      return s * rest;
    }
    case Activation::hard_swish:
      return x <= -3 || x >= 3 ? 0 : 1.0f / 3;
  }
  return 0;
}

}  // namespace whisker::cuda
