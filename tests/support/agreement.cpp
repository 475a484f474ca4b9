#include "tests/support/agreement.h"

#include "core/autograd/autograd.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

/// y, then the gradients of the operands.
std::vector<std::vector<double>> run(const Agreement& a, Device device) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < a.shapes.size(); ++i) {
    // Made in f32 and rounded once, so that both devices see the same numbers.
    const Tensor host = normal_numbers(a.shapes[i], 7, i);
    const Tensor rounded = host.to(a.dtype).to(device == reference_device ? DType::f32 : a.dtype);
    operands.push_back(rounded.to(device));
    operands.back().set_requires_grad();
  }
  const Tensor y = a.function(operands);
  std::vector<std::vector<double>> results{y.to_vector()};
  const Tensor dy = normal_numbers(y.shape(), 8, 0).to(a.dtype).to(y.dtype()).to(device);
  backward(y, {.gradient = dy});
  for (const Tensor& operand : operands) {
    results.push_back(operand.grad().defined() ? operand.grad().to_vector()
                                               : std::vector<double>());
  }
  return results;
}

}  // namespace

Tensor normal_numbers(const Shape& shape, uint64_t seed, uint64_t stream) {
  static std::map<std::pair<uint64_t, uint64_t>, std::vector<double>> longest;
  const TensorOptions options{.device = reference_device};
  std::vector<double>& all = longest[{seed, stream}];
  const auto count = static_cast<size_t>(shape.count());
  if (all.size() < count) {
    all = rand_normal({shape.count()}, 0, 1, seed, stream, options).to_vector();
  }
  return from_vector(std::span(all).first(count), shape, options);
}

void expect_agreement(const Agreement& a) {
  SCOPED_TRACE(a.name);
  expect_results_agree(run(a, reference_device), run(a, a.device), a.tolerance);
}

void expect_results_agree(const std::vector<std::vector<double>>& want,
                          const std::vector<std::vector<double>>& results, double tolerance) {
  ASSERT_EQ(results.size(), want.size());
  for (size_t r = 0; r < want.size(); ++r) {
    const auto& expected = want[r];
    const auto& got = results[r];
    ASSERT_EQ(expected.size(), got.size()) << "result " << r;
    double scale = 1e-30;
    for (const double v : expected) {
      if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
    }
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == got[i]) continue;
      double error = std::fabs(expected[i] - got[i]) / scale;
      if (std::isnan(error)) error = std::isnan(expected[i]) && std::isnan(got[i]) ? 0 : 1e30;
      if (error > worst) {
        worst = error;
        at = i;
      }
    }
    EXPECT_LE(worst, tolerance) << (r == 0 ? "y" : "gradient ") << r << "[" << at << "] expected "
                                << (expected.empty() ? 0 : expected[at]) << " got "
                                << (got.empty() ? 0 : got[at]);
  }
}

}  // namespace whisker::test
