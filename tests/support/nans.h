// Tensors with a NaN in them, and where NaN is expected in what is made of them.
#pragma once

#include "core/ops/ops.h"
#include "tests/support/devices.h"
#include "tests/support/poisoned_memory.h"
#include "tests/support/special_values.h"

#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

namespace whisker::test {

inline constexpr ActivationSpec activations[] = {
    {Activation::none},    {Activation::relu}, {Activation::leaky_relu, 0.01f},
    {Activation::sigmoid}, {Activation::tanh}, {Activation::leaky_relu, 0.0f},
};

/// Runs fn(options, activation) for every dtype of every device and every activation: in memory as
/// it comes, and in poisoned memory, where a NaN that nobody wrote shows unless one is expected.
inline void for_each_form(const std::function<void(TensorOptions, ActivationSpec)>& fn) {
  for (const Device device : test_devices()) {
    for (const bool poison : {false, true}) {
      std::optional<PoisonedMemory> poisoned;
      if (poison) poisoned.emplace(device);
      for (const DType dtype : test_dtypes(device)) {
        for (const ActivationSpec f : activations) {
          SCOPED_TRACE(fmt::format("{} {} {} {}{}", device, dtype, name_of(f.kind), f.slope,
                                   poison ? ", poisoned" : ""));
          fn({.dtype = dtype, .device = device}, f);
        }
      }
    }
  }
}

/// Small numbers of both signs, with a NaN at `at`.
inline Tensor with_nan(const Shape& shape, int64_t at, TensorOptions options) {
  std::vector<double> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 7) / 8 - 0.375;
  if (at >= 0) values[static_cast<size_t>(at)] = nan;
  return from_vector(values, shape, options);
}

/// Exactly the elements for which `expected` holds are NaN.
inline void expect_nans(const Tensor& y, const std::function<bool(int64_t)>& expected) {
  const std::vector<double> values = y.to_vector();
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::isnan(values[i]), expected(static_cast<int64_t>(i))) << "element " << i;
  }
}

struct ConvCase {
  int64_t side, c, c_out, kernel, stride = 1;
};

// Planes, thin and wide blocks, channels that need padding, 1x1.
inline constexpr ConvCase convolutions[] = {{9, 3, 16, 3},  {12, 16, 16, 3}, {14, 64, 64, 3},
                                            {6, 20, 35, 3}, {7, 16, 64, 1},  {7, 64, 16, 1},
                                            {5, 2, 3, 2}};
// First layers, for which a GPU has kernels of its own. A NaN in their images may
// reach more neighbours than the definition says (Note [Few-channel convolutions]); in all else it
// stays where those of the others do.
inline constexpr ConvCase few_channels[] = {
    {10, 1, 32, 3}, {11, 3, 64, 3}, {11, 3, 32, 3, 2}, {16, 3, 64, 7, 2}};

/// Runs fn(case) for both lists.
inline void for_each_convolution(const std::function<void(const ConvCase&)>& fn) {
  const auto run = [&](const ConvCase& s) {
    SCOPED_TRACE(fmt::format("conv2d {} {} {} {} {}", s.side, s.c, s.c_out, s.kernel, s.stride));
    fn(s);
  };
  for (const ConvCase& s : convolutions) run(s);
  for (const ConvCase& s : few_channels) run(s);
}

}  // namespace whisker::test
