// Convolutions of normal numbers on the GPU against the reference, in every type, with gradients of
// all operands and, as in a first layer, with none of the images.
#pragma once

#include "core/autograd/autograd.h"
#include "tests/core/cases/convolution_cases.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace whisker::test {

using Operands = const std::vector<Tensor>&;
using Results = std::vector<std::vector<double>>;

inline constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};

/// y and the gradients of x, w and b; `of_data`: but that of x. The reference computes in f32 from
/// the numbers that `dtype` has.
inline Results convolution_results(const ConvolutionCase& c, DType dtype, Device device,
                                   bool of_data = false) {
  const auto placed = [&](const Tensor& host) {
    return host.to(dtype).to(device == reference_device ? DType::f32 : dtype).to(device);
  };
  std::vector<Tensor> operands, leaves;
  for (const Shape& shape : {c.x, c.w, Shape{c.w[0]}}) {
    operands.push_back(placed(normal_numbers(shape, 7, operands.size())));
    if (of_data && operands.size() == 1) continue;
    leaves.push_back(operands.back().set_requires_grad());
  }
  const Tensor y = conv2d(operands[0], operands[1], operands[2], c.options);
  backward(y, {.gradient = placed(normal_numbers(y.shape(), 8, 0))});
  Results results{y.to_vector()};
  for (const Tensor& leaf : leaves) results.push_back(leaf.grad().to_vector());
  return results;
}

/// convolution_results() on the reference, computed once in a process: tests run the same cases by
/// several algorithms, and the reference takes longer than those.
inline const Results& reference_results(const ConvolutionCase& c, DType dtype) {
  static std::map<std::string, Results> computed;
  const Conv2dOptions& o = c.options;
  const Pool2dOptions pool = o.max_pool.value_or(Pool2dOptions{.kernel = 1});
  const Pair pool_stride = pool.stride.value_or(pool.kernel);
  const std::string key = fmt::format(
      "{} x {} w {} stride {} {} padding {} {} {} dilation {} {} groups {} {} {} pool {} {} {} {} "
      "{} "
      "{} {} {}",
      dtype, c.x, c.w, o.stride.h, o.stride.w, o.padding.h, o.padding.w,
      static_cast<int>(o.padding_mode), o.dilation.h, o.dilation.w, o.groups,
      name_of(o.activation.kind), o.activation.slope, pool.kernel.h, pool.kernel.w, pool_stride.h,
      pool_stride.w, pool.padding.h, pool.padding.w, static_cast<int>(pool.padding_mode),
      pool.ceil);
  const auto [at, is_new] = computed.try_emplace(key);
  if (is_new) at->second = convolution_results(c, dtype, reference_device);
  return at->second;
}

inline void expect_convolution_agrees(const char* what, const ConvolutionCase& c, DType dtype,
                                      double least_tolerance = 0) {
  const double allowed = std::max(tolerance(dtype, longest_sum(c)), least_tolerance);
  Results expected = reference_results(c, dtype);
  for (const bool of_data : {false, true}) {
    SCOPED_TRACE(
        fmt::format("{} {} x {} w {}{}", what, dtype, c.x, c.w, of_data ? " of data" : ""));
    if (of_data) expected.erase(expected.begin() + 1);
    expect_results_agree(expected, convolution_results(c, dtype, gpu, of_data), allowed);
  }
}

}  // namespace whisker::test
