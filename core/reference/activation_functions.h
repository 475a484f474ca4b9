// The activations as rows {f, f', f''}, in double and without overflow. `saved` is y = f(x) where
// grad_from_output(), else x. Formulas: Goodfellow, Bengio and Courville, "Deep Learning",
// sections 3.10 and 6.3; gelu: Hendrycks and Gimpel 2016; silu: Elfwing, Uchibe and Doya 2018;
// hard_sigmoid and hard_swish: Howard et al. 2019 ("Searching for MobileNetV3", 5.2).
#pragma once

#include "core/backend/geometry.h"

#include <cmath>
#include <numbers>

namespace whisker {

inline double sigmoid_of(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

/// Phi, the standard normal distribution function, and phi, its density.
inline double normal_distribution(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}
inline double normal_density(double x) {
  return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

/// min(max(x, 0), high); keeps NaN.
inline double clipped(double x, double high) {
  return x < 0 ? 0 : x > high ? high : x;
}

/// f(x)
inline double activate(ActivationSpec f, double x) {
  switch (f.kind) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;  // this way round a NaN stays a NaN
    case Activation::leaky_relu:
      return x < 0 ? double{f.slope} * x : x;
    case Activation::sigmoid:
      return sigmoid_of(x);
    case Activation::tanh:
      return std::tanh(x);
    case Activation::gelu:
      return x * normal_distribution(x);
    case Activation::silu:
      return x * sigmoid_of(x);
    case Activation::softplus:
      return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    case Activation::relu6:
      return clipped(x, 6);
    case Activation::hard_sigmoid:
      return clipped(x + 3, 6) / 6;
    case Activation::hard_swish:
      return x * clipped(x + 3, 6) / 6;
  }
  return x;
}

/// f'(x) dy. Note [relu's gradient and NaN]: relu lets dy through unless y <= 0, whatever dy is, as
/// PyTorch's threshold_backward does: a NaN in y lets it through, a NaN in dy ends where y is 0.
inline double activation_gradient(ActivationSpec f, double saved, double dy) {
  const double x = saved;
  const double y = saved;
  switch (f.kind) {
    case Activation::none:
      return dy;
    case Activation::relu:
      return y <= 0 ? 0 : dy;
    case Activation::leaky_relu:
      return y > 0 ? dy : double{f.slope} * dy;
    case Activation::sigmoid:
      return y * (1 - y) * dy;
    case Activation::tanh:
      return (1 - y * y) * dy;
    case Activation::gelu:
      return (normal_distribution(x) + x * normal_density(x)) * dy;
    case Activation::silu: {
      const double s = sigmoid_of(x);
      return s * (1 + x * (1 - s)) * dy;
    }
    case Activation::softplus:
      return sigmoid_of(x) * dy;
    case Activation::relu6:
      return y <= 0 || y >= 6 ? 0 : dy;
    case Activation::hard_sigmoid:
      return y <= 0 || y >= 1 ? 0 : dy / 6;
    case Activation::hard_swish:
      return x <= -3 ? 0 : x >= 3 ? dy : (2 * x + 3) / 6 * dy;
  }
  return dy;
}

/// f''(x)
inline double activation_curvature(ActivationSpec f, double saved) {
  const double x = saved;
  const double y = saved;
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
      const double s = sigmoid_of(x);
      return s * (1 - s) * (2 + x * (1 - 2 * s));
    }
    case Activation::softplus: {
      const double s = sigmoid_of(x);
      return s * (1 - s);
    }
    case Activation::hard_swish:
      return x <= -3 || x >= 3 ? 0 : 1.0 / 3;
  }
  return 0;
}

}  // namespace whisker
