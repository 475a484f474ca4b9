// The fused update on every device against the formulas of torch.optim's documentation, written for
// one number: groups by 256-byte block, scaled and clipped gradients, each kind over three steps,
// with 16-bit gradients and compute copies beside f32 masters.
#include "core/backend/backend.h"
#include "core/backend/training_step.h"
#include "tests/support/devices.h"
#include "tests/support/tolerance.h"
#include "tests/support/update_state.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

struct Case {
  const char* name;
  OptimizerStep step;
  double gradient_factor = 1;
};

/// torch.optim, one parameter: d is the decay, r the rate, g the gradient as it arrives.
class OneParameter {
 public:
  OneParameter(const OptimizerStep& s, double value, double r, double d)
      : s_(s), value_(value), r_(r), d_(d) {}

  double update(double g, int t) {
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
      {"sgd_scaled_and_clipped", {.kind = sgd, .clip_value = 0.3}, 0.5},
      {"adam", {.kind = OptimizerKind::adam}},
      {"adam_clipped", {.kind = OptimizerKind::adam, .clip_value = 0.5}, 3},
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

/// Types of one run: masters, gradients, and compute copies where they differ from the masters.
struct Types {
  DType master, gradient;
  std::optional<DType> compute = {};
};

std::vector<Types> types_on(Device device) {
  std::vector<Types> types = {{DType::f32, DType::f32}};
  for (const DType narrow : {DType::bf16, DType::f16}) {
    if (device.kind == DeviceKind::cpu && narrow == DType::f16) continue;
    types.push_back({DType::f32, narrow, narrow});
    types.push_back({DType::f32, DType::f32, narrow});  // gradients summed over several batches
  }
  if (device.kind == DeviceKind::reference) types.push_back({DType::f64, DType::f64});
  return types;
}

double rounded(double value, DType dtype) {
  return from_vector({value}, {}, {.dtype = dtype, .device = cpu_device}).item();
}

constexpr size_t count = 3000;  // several pieces of the CPU's loop over mixed types

struct Flat {
  Flat(const Case& c, const Types& types, Device device)
      : step(c.step), memory(device), groups_of_blocks(), values(count) {
    const TensorOptions options{.dtype = types.master, .device = device};
    const size_t block = 256 / size_of(types.master);
    for (size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<double>(i));
    for (size_t i = 0; i < count; i += block) groups_of_blocks.push_back(i / block % 2 ? 1 : 0);
    step.state = memory.state();
    step.groups = from_vector({2, 0.05, 0.4, 0}, {2, 2}, {.dtype = DType::f64, .device = device});
    step.block_group =
        from_vector(groups_of_blocks, {static_cast<int64_t>(groups_of_blocks.size())},
                    {.dtype = DType::u8, .device = device});
    step.value = from_vector(values, {count}, options);
    if (types.compute) {
      step.compute = zeros({count}, {.dtype = *types.compute, .device = device});
    }
    step.moment1 = zeros({count}, options);
    step.moment2 = zeros({count}, options);
    if (step.centered) step.moment3 = zeros({count}, options);
  }

  OptimizerStep step;
  StepMemory memory;
  std::vector<double> groups_of_blocks, values;
};

TEST_P(OptimizerUpdate, FollowsTheFormulas) {
  for (const Device device : test_devices()) {
    for (const Types& types : types_on(device)) {
      SCOPED_TRACE(fmt::format("{} {} {}", device, types.master, types.gradient));
      Flat flat(GetParam(), types, device);
      const size_t block = 256 / size_of(types.master);
      std::vector<OneParameter> plain;
      for (size_t i = 0; i < count; ++i) {
        const bool second = flat.groups_of_blocks[i / block] == 1;
        plain.emplace_back(flat.step, flat.values[i], second ? 0.02 : 0.1, second ? 0 : 0.05);
      }
      std::vector<double> want = flat.values;
      for (int t = 1; t <= 3; ++t) {
        std::vector<double> gradient(count);
        for (size_t i = 0; i < count; ++i) {
          gradient[i] = rounded(std::cos(0.7 * static_cast<double>(i) + t), types.gradient);
          want[i] = plain[i].update(gradient[i] * GetParam().gradient_factor, t);
        }
        flat.memory.write(update_state(flat.step, t, 0.05, GetParam().gradient_factor));
        flat.step.gradient =
            from_vector(gradient, {count}, {.dtype = types.gradient, .device = device});
        backend_of(device).training_step().optimizer_step(flat.step);
        const std::vector<double> got = flat.step.value.to_vector();
        EXPECT_TRUE(close(got, want, tolerance(types.master, 100), 1)) << "step " << t;
        if (!types.compute) continue;
        const std::vector<double> copies = flat.step.compute.to_vector();
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(copies[i], rounded(got[i], *types.compute)) << "step " << t << ", " << i;
        }
      }
    }
  }
}

TEST_P(OptimizerUpdate, DoesNothingWhenTheStepDoesNotApply) {
  for (const Device device : test_devices()) {
    Flat flat(GetParam(), {DType::f32, DType::bf16, DType::bf16}, device);
    StepState state = update_state(flat.step, 1, 0.05);
    state.applies = 0;
    flat.memory.write(state);
    flat.step.gradient = ones({count}, {.dtype = DType::bf16, .device = device});
    const std::vector<double> before = flat.step.value.to_vector();
    backend_of(device).training_step().optimizer_step(flat.step);
    EXPECT_EQ(flat.step.value.to_vector(), before) << device.str();
    for (const Tensor& untouched :
         {flat.step.compute, flat.step.moment1, flat.step.moment2, flat.step.moment3}) {
      if (!untouched.defined()) continue;
      EXPECT_EQ(untouched.to_vector(), std::vector<double>(count)) << device.str();
    }
  }
}

}  // namespace
}  // namespace whisker::test
