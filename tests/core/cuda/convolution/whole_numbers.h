// Convolutions of small whole numbers: no sum of theirs is rounded, in whatever order and type it
// is taken, so that what kernels compute is compared digit by digit, and the same elements win
// their windows in every type.
#pragma once

#include "convolution_case.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

namespace whisker::test {

/// Of -1, 0 and 1, on the CPU.
inline Tensor whole_numbers(const Shape& shape, uint64_t stream) {
  std::vector<double> values = rand_uniform(shape, -1.5, 1.5, 7, stream).to_vector();
  for (double& value : values) value = std::round(value);
  return from_vector(values, shape);
}

/// The operands of a convolution that need gradients, and its epilogue.
struct ConvolutionUse {
  const char* name = "all";
  bool bias = true;
  bool of_x = true;
};

/// y and the gradients that `use` asks for.
inline Results whole_number_results(const ConvolutionCase& c, const ConvolutionUse& use,
                                    DType dtype, Device device) {
  const auto on = [&](const Tensor& t) {
    return device == reference_device ? t.to(device) : t.to(dtype).to(device);
  };
  const auto operand = [&](const Shape& shape, uint64_t stream, bool wanted) {
    const Tensor t = on(whole_numbers(shape, stream));
    return wanted ? t.set_requires_grad() : t;
  };
  const Tensor x = operand(c.x, 0, use.of_x), w = operand(c.w, 1, true);
  Tensor b;
  if (use.bias) b = operand({c.w[0]}, 2, true);
  const Tensor y = conv2d(x, w, b, c.options);
  backward(y, {.gradient = on(whole_numbers(y.shape(), 3))});
  Results results{y.to_vector()};
  for (const Tensor& leaf : {x, w, b}) {
    if (leaf.defined() && leaf.requires_grad()) results.push_back(leaf.grad().to_vector());
  }
  return results;
}

/// In every type, against the reference.
inline void expect_whole_numbers_agree(const ConvolutionCase& c, const ConvolutionUse& use = {}) {
  const auto expected = whole_number_results(c, use, DType::f32, reference_device);
  const bool tf32 = cuda_options(gpu).tf32;
  for (const DType dtype : dtypes) {
    const auto results = whole_number_results(c, use, dtype, gpu);
    // Exact but for engines in plain f32, which may go by way of transforms.
    const int64_t terms = dtype == DType::f32 && !tf32 ? longest_sum(c) : 2;
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(close(results[i], expected[i], tolerance(dtype, terms), 1))
          << fmt::format("{}, {} {} tf32 {} x {} w {}, {} of y and gradients", use.name,
                         name_of(c.options.activation.kind), dtype, tf32, c.x, c.w, i);
    }
  }
}

}  // namespace whisker::test
