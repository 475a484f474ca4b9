// The pointwise functions, one struct each: f(x), and f' and f'' from what the operator saved (y
// where grad_from_output(kind), else x); gradient() is f' times dy. GELU: Hendrycks and Gimpel
// 2016, with erf; SiLU: Elfwing et al. 2017.
#pragma once

#include "core/backend/geometry.h"
#include "core/cpu/support/vector_math.h"

#include <numbers>
#include <type_traits>

namespace whisker::cpu {

struct Identity {
  static float value(float x, float) { return x; }
  static float first(float, float) { return 1; }
  static float second(float, float) { return 0; }
};
struct Relu {
  // Keeps NaN, so that divergence shows.
  static float value(float x, float) { return x < 0 ? 0 : x; }
  static float second(float, float) { return 0; }
};
struct LeakyRelu {
  static float value(float x, float slope) { return x < 0 ? slope * x : x; }
  static float first(float y, float slope) { return y > 0 ? 1.0f : slope; }
  static float second(float, float) { return 0; }
};
struct Sigmoid {
  static float value(float x, float) { return vector_sigmoid(x); }
  static float first(float y, float) { return y * (1 - y); }
  static float second(float y, float) { return y * (1 - y) * (1 - 2 * y); }
};
struct Tanh {
  static float value(float x, float) { return vector_tanh(x); }
  static float first(float y, float) { return 1 - y * y; }
  static float second(float y, float) { return -2 * y * (1 - y * y); }
};
struct Gelu {
  static float density(float x) {
    return std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float> *
           vector_exp(-0.5f * x * x);
  }
  static float cumulative(float x) { return 0.5f * vector_erfc(-x / std::numbers::sqrt2_v<float>); }
  static float value(float x, float) { return x * cumulative(x); }
  static float first(float x, float) { return cumulative(x) + x * density(x); }
  static float second(float x, float) { return density(x) * (2 - x * x); }
};
struct Silu {
  static float value(float x, float) { return x * vector_sigmoid(x); }
  static float first(float x, float) {
    const float s = vector_sigmoid(x);
    return s * (1 + x * (1 - s));
  }
  static float second(float x, float) {
    const float s = vector_sigmoid(x);
    return s * (1 - s) * (2 + x * (1 - 2 * s));
  }
};
struct Softplus {
  static float value(float x, float) {
    return (x < 0 ? 0 : x) + vector_log1p_exp_minus(x < 0 ? -x : x);
  }
  static float first(float x, float) { return vector_sigmoid(x); }
  static float second(float x, float) {
    const float s = vector_sigmoid(x);
    return s * (1 - s);
  }
};

// min(max(x, 0), high); keeps NaN.
inline float clipped(float x, float high) {
  const float above = x < 0 ? 0 : x;
  return above > high ? high : above;
}
struct Relu6 {
  static float value(float x, float) { return clipped(x, 6); }
  static float first(float y, float) { return ((y > 0) & (y < 6)) ? 1.0f : 0.0f; }
  static float second(float, float) { return 0; }
};
struct HardSigmoid {
  static float value(float x, float) { return clipped(x + 3, 6) * (1.0f / 6); }
  static float first(float y, float) { return ((y > 0) & (y < 1)) ? 1.0f / 6 : 0.0f; }
  static float second(float, float) { return 0; }
};
struct HardSwish {
  static float value(float x, float) { return x * clipped(x + 3, 6) * (1.0f / 6); }
  static float first(float x, float) {
    const float inner = x >= 3 ? 1.0f : (2 * x + 3) * (1.0f / 6);
    return x <= -3 ? 0.0f : inner;
  }
  static float second(float x, float) { return ((x > -3) & (x < 3)) ? 1.0f / 3 : 0.0f; }
};

/// f'(x) dy; relu's: see Note [relu's gradient and NaN] in core/reference/activation_functions.h.
template <class F>
float gradient(float saved, float slope, float dy) {
  if constexpr (std::is_same_v<F, Relu>) {
    return saved <= 0 ? 0 : dy;
  } else {
    return F::first(saved, slope) * dy;
  }
}

/// Calls fn.template operator()<F>() with the struct of `kind`.
template <class Fn>
void visit_activation(Activation kind, Fn&& fn) {
  switch (kind) {
    case Activation::none:
      return fn.template operator()<Identity>();
    case Activation::relu:
      return fn.template operator()<Relu>();
    case Activation::leaky_relu:
      return fn.template operator()<LeakyRelu>();
    case Activation::sigmoid:
      return fn.template operator()<Sigmoid>();
    case Activation::tanh:
      return fn.template operator()<Tanh>();
    case Activation::gelu:
      return fn.template operator()<Gelu>();
    case Activation::silu:
      return fn.template operator()<Silu>();
    case Activation::softplus:
      return fn.template operator()<Softplus>();
    case Activation::relu6:
      return fn.template operator()<Relu6>();
    case Activation::hard_sigmoid:
      return fn.template operator()<HardSigmoid>();
    case Activation::hard_swish:
      return fn.template operator()<HardSwish>();
  }
}

}  // namespace whisker::cpu
