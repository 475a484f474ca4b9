// The fused update on every device against the formulas of torch.optim's documentation, written for
// one number: groups by 256-byte block, scaled and clipped gradients, each kind over three steps.
#include "core/backend.h"
#include "tests/support/devices.h"
#include "tests/support/tolerance.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

struct Case {
  const char* name;
  OptimizerStep step;
};

/// torch.optim, one parameter: d is the decay, r the rate, g the gradient as it arrives.
class OneParameter {
 public:
  OneParameter(const OptimizerStep& s, double value, double r, double d)
      : s_(s), value_(value), r_(r), d_(d) {}

  double update(double g, int t) {
    g *= s_.gradient_scale;
    if (s_.clip_value > 0) g = std::fmin(std::fmax(g, -s_.clip_value), s_.clip_value);
    if (s_.decoupled_decay) {
      value_ -= r_ * d_ * value_;
    } else {
      g += d_ * value_;
    }
    if (s_.kind == OptimizerKind::sgd) return value_ -= r_ * sgd_direction(g, t);
    if (s_.kind == OptimizerKind::rmsprop) return value_ -= r_ * rmsprop_direction(g);
    mean_ = s_.beta1 * mean_ + (1 - s_.beta1) * g;
    square_ = s_.beta2 * square_ + (1 - s_.beta2) * g * g;
    const double corrected_mean = mean_ / (1 - std::pow(s_.beta1, t));
    const double corrected_square = square_ / (1 - std::pow(s_.beta2, t));
    return value_ -= r_ * corrected_mean / (std::sqrt(corrected_square) + s_.epsilon);
  }

 private:
  double sgd_direction(double g, int t) {
    if (s_.momentum == 0) return g;
    buffer_ = t > 1 ? s_.momentum * buffer_ + g : g;
    return s_.nesterov ? g + s_.momentum * buffer_ : buffer_;
  }
  double rmsprop_direction(double g) {
    square_ = s_.beta2 * square_ + (1 - s_.beta2) * g * g;
    mean_ = s_.beta2 * mean_ + (1 - s_.beta2) * g;
    const double variance = s_.centered ? square_ - mean_ * mean_ : square_;
    buffer_ = s_.momentum * buffer_ + g / (std::sqrt(variance) + s_.epsilon);
    return buffer_;
  }

  OptimizerStep s_;
  double value_, r_, d_;
  double mean_ = 0, square_ = 0, buffer_ = 0;
};

std::vector<Case> cases() {
  constexpr auto sgd = OptimizerKind::sgd;
  constexpr auto rmsprop = OptimizerKind::rmsprop;
  return {
      {"sgd", {.kind = sgd}},
      {"sgd_momentum", {.kind = sgd, .momentum = 0.9}},
      {"sgd_nesterov", {.kind = sgd, .nesterov = true, .momentum = 0.8}},
      {"sgd_scaled_and_clipped", {.kind = sgd, .gradient_scale = 0.5, .clip_value = 0.3}},
      {"adam", {.kind = OptimizerKind::adam}},
      {"adam_clipped", {.kind = OptimizerKind::adam, .gradient_scale = 3, .clip_value = 0.5}},
      {"adamw", {.kind = OptimizerKind::adamw, .decoupled_decay = true}},
      {"rmsprop", {.kind = rmsprop, .beta2 = 0.99}},
      {"rmsprop_momentum", {.kind = rmsprop, .momentum = 0.7, .beta2 = 0.9}},
      {"rmsprop_centered", {.kind = rmsprop, .centered = true, .beta2 = 0.95, .epsilon = 1e-4}},
  };
}

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class OptimizerUpdate : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, OptimizerUpdate, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST_P(OptimizerUpdate, FollowsTheFormulas) {
  constexpr size_t count = 200;
  const OptimizerGroup groups[] = {{.learning_rate = 0.1, .weight_decay = 0.05},
                                   {.learning_rate = 0.02, .weight_decay = 0}};
  for (const Device device : test_devices()) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      if (dtype == DType::f64 && device.kind != DeviceKind::reference) continue;
      const TensorOptions options{.dtype = dtype, .device = device};
      const size_t block = 256 / size_of(dtype);
      std::vector<double> values(count), block_groups;
      for (size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<double>(i));
      for (size_t i = 0; i < count; i += block) block_groups.push_back(i / block % 2 ? 1 : 0);

      OptimizerStep step = GetParam().step;
      step.groups = groups;
      step.block_group = from_vector(block_groups, {static_cast<int64_t>(block_groups.size())},
                                     {.dtype = DType::u8, .device = device});
      step.value = from_vector(values, {count}, options);
      step.moment1 = zeros({count}, options);
      step.moment2 = zeros({count}, options);
      if (step.centered) step.moment3 = zeros({count}, options);
      std::vector<OneParameter> plain;
      for (size_t i = 0; i < count; ++i) {
        const OptimizerGroup& group = groups[static_cast<size_t>(block_groups[i / block])];
        plain.emplace_back(step, values[i], group.learning_rate, group.weight_decay);
      }
      for (int t = 1; t <= 3; ++t) {
        std::vector<double> gradient(count);
        for (size_t i = 0; i < count; ++i) {
          gradient[i] = std::cos(0.7 * static_cast<double>(i) + t);
          values[i] = plain[i].update(gradient[i], t);
        }
        step.step = t;
        step.gradient = from_vector(gradient, {count}, options);
        backend_of(device).optimizer_step(step);
        EXPECT_TRUE(close(step.value.to_vector(), values, tolerance(dtype, 100), 1))
            << device.str() << " " << name_of(dtype) << ", step " << t;
      }
    }
  }
}

}  // namespace
}  // namespace whisker::test
