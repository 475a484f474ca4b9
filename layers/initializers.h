// Initial values of parameters, drawn on the host with Philox keyed by (seed, parameter name): the
// same on every device. Without a choice, layers start as PyTorch's do.
#pragma once

#include "core/parameters/parameters.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Inputs and outputs that one weight element connects.
struct Fans {
  int64_t in = 1, out = 1;
};
/// w (out, in) or (c_out, kernel_h, kernel_w, c_in / groups): the kernel's area counts in both, as
/// in torch.nn.init and Keras.
Fans fans_of(const Shape& weight);

enum class InitializerKind : uint8_t {
  torch_default,    ///< kaiming_uniform with a = sqrt 5; biases uniform within 1 / sqrt(fan in)
  kaiming_uniform,  ///< within sqrt(6 / ((1 + a^2) fan))  (He et al. 2015, section 2.2)
  kaiming_normal,   ///< deviation sqrt(2 / ((1 + a^2) fan))
  glorot_uniform,  ///< within sqrt(6 / (fan in + fan out))  (Glorot and Bengio 2010, section 4.2.1)
  glorot_normal,   ///< deviation sqrt(2 / (fan in + fan out))
  orthogonal,      ///< orthonormal rows or columns, whichever are fewer (Saxe et al. 2014)
  uniform,         ///< in [low, high)
  normal,          ///< mean, deviation
  constant,
};

/// An initialiser and its parameters; make_initializer() fits it to a weight's shape.
struct InitializerSpec {
  InitializerKind kind = InitializerKind::torch_default;
  double slope = 0;      ///< kaiming's a: slope of the leaky relu that follows
  bool fan_out = false;  ///< kaiming: preserve the gradients' variance, not the values'
  double mean = 0, deviation = 0.05;  ///< normal (Keras' default deviation)
  double low = -0.05, high = 0.05;    ///< uniform (Keras' defaults)
  double value = 0;                   ///< constant

  static InitializerSpec zeros() { return {.kind = InitializerKind::constant}; }
  static InitializerSpec ones() { return {.kind = InitializerKind::constant, .value = 1}; }
};

/// Values for a weight, or for a bias when `bias` is set, of a layer whose weight connects `fans`.
/// Throws usage for a bias from an initialiser that needs a weight's shape (kaiming, glorot,
/// orthogonal).
Initializer make_initializer(const InitializerSpec& spec, Fans fans, bool bias = false);

/// "glorot_uniform" with its synonyms of Keras and PyTorch ("xavier_uniform", "he_normal",
/// "zeros").
std::optional<InitializerSpec> find_initializer(std::string_view name);
std::vector<std::string> initializer_names();

}  // namespace whisker
