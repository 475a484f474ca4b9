#include "tests/support/agreement.h"

#include "core/autograd.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

struct Results {
  std::vector<std::vector<double>> values;  // y, then the gradients of the operands
};

Results run(const Agreement& a, Device device) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < a.shapes.size(); ++i) {
    // Made in f32 and rounded once, so that both devices see the same numbers.
    const Tensor host = rand_normal(a.shapes[i], 0, 1, 7, i, {.device = reference_device});
    const Tensor rounded = host.to(a.dtype).to(device == reference_device ? DType::f32 : a.dtype);
    operands.push_back(rounded.to(device));
    operands.back().set_requires_grad();
  }
  const Tensor y = a.function(operands);
  Results results;
  results.values.push_back(y.to_vector());
  const Tensor dy = rand_normal(y.shape(), 0, 1, 8, 0, {.device = reference_device})
                        .to(a.dtype)
                        .to(y.dtype())
                        .to(device);
  backward(y, {.gradient = dy});
  for (const Tensor& operand : operands) {
    results.values.push_back(operand.grad().defined() ? operand.grad().to_vector()
                                                      : std::vector<double>());
  }
  return results;
}

}  // namespace

void expect_agreement(const Agreement& a) {
  const Results reference = run(a, reference_device);
  const Results compared = run(a, a.device);
  for (size_t r = 0; r < reference.values.size(); ++r) {
    const auto& expected = reference.values[r];
    const auto& got = compared.values[r];
    ASSERT_EQ(expected.size(), got.size()) << a.name << " result " << r;
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
    EXPECT_LE(worst, a.tolerance) << a.name << (r == 0 ? ": y" : ": gradient ") << r << "[" << at
                                  << "] expected " << (expected.empty() ? 0 : expected[at])
                                  << " got " << (got.empty() ? 0 : got[at]);
  }
}

}  // namespace whisker::test
