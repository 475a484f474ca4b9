// The judge itself: right gradients pass, wrong ones are found with their place, kinks forgiven.
#include "core/autograd/gradcheck.h"

#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "tests/support/error_of.h"

#include <cmath>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

namespace whisker {
namespace {

constexpr TensorOptions f64{.dtype = DType::f64, .device = reference_device};

// Three times x, with a gradient that is wrong at one element.
Tensor wrong_triple(const Tensor& x, double wrong_slope) {
  const Tensor y = affine(x.detach(), 3, 0);
  record("wrong_triple", {&x}, y, [wrong_slope](Gradients& g) {
    const Tensor dx = affine(g.dy(), 3, 0);
    dx.data<double>()[4] *= wrong_slope / 3;
    g.accumulate_grad(0, dx);
  });
  return y;
}

TEST(Gradcheck, RightGradientsPass) {
  const Tensor x = rand_normal({3, 4}, 0, 1, 1, 1, f64), w = rand_normal({4, 2}, 0, 1, 1, 2, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}, {"w", w}};
  const auto results = gradcheck([&] { return tanh(matmul(x, w)); }, inputs);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].checked, 12);
  for (const GradcheckResult& result : results) {
    EXPECT_TRUE(result.passed) << result.name;
    EXPECT_LT(result.error, 1e-8);
  }
}

TEST(Gradcheck, AWrongGradientIsFoundWithItsPlaceAndBothValues) {
  const Tensor x = rand_normal({2, 3}, 0, 1, 1, 1, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}};
  const auto result = gradcheck([&] { return sum(wrong_triple(x, 3.01)); }, inputs)[0];
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.index, 4);
  EXPECT_EQ(position_in(result.shape, result.index), "(1,1)");
  EXPECT_DOUBLE_EQ(result.gradient, 3.01);
  EXPECT_NEAR(result.slope, 3, 1e-8);
  EXPECT_NEAR(result.error, 0.01 / 3.01, 1e-6);
}

TEST(Gradcheck, SmallGradientsAreMeasuredByTheFloor) {
  const Tensor x = rand_normal({2, 3}, 0, 1, 1, 1, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}};
  const auto error_at = [&](double value) {
    const auto f = [&] { return affine(sum(wrong_triple(x, 3.01)), 1e-6, value); };
    return gradcheck(f, inputs, {.tolerance = 1, .floor = 1e-4})[0].error;
  };
  EXPECT_NEAR(error_at(0), 0.01 * 1e-6 / 1e-4, 1e-6);
  EXPECT_NEAR(error_at(1000), 0.01 * 1e-6 / (1e-4 * 1000), 2e-8);
}

TEST(Gradcheck, AMissingGradientIsFound) {
  const Tensor x = rand_normal({3}, 0, 1, 1, 1, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}};
  // Half of the dependence is off the tape.
  EXPECT_FALSE(gradcheck([&] { return sum(mul(x, x.detach())); }, inputs)[0].passed);
}

TEST(Gradcheck, AKinkBetweenThePointsIsForgiven) {
  const Tensor x = from_vector({3e-6, 5e-8, -0.5}, {3}, f64);  // within steps of relu's kink
  const std::vector<GradcheckInput> inputs = {{"x", x}};
  const auto result = gradcheck([&] { return relu(x); }, inputs)[0];
  EXPECT_TRUE(result.passed) << result.error;
  const auto once = gradcheck([&] { return relu(x); }, inputs, {.step = 1e-2})[0];
  EXPECT_FALSE(once.passed) << "1e-5, the smallest step, still crosses the kink";
}

TEST(Gradcheck, SamplesDistinctElements) {
  const Tensor x = rand_normal({50, 40}, 0, 1, 1, 1, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}};
  int64_t calls = 0;
  const auto f = [&] {
    ++calls;
    return sum(mul(x, x));
  };
  EXPECT_EQ(gradcheck(f, inputs, {.elements = 10})[0].checked, 10);
  EXPECT_EQ(calls, 21);
}

TEST(Gradcheck, SampledElementsLieAllOverATensor) {
  const Tensor x = rand_normal({50, 40}, 0, 1, 1, 1, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}};
  const std::vector<double> before = x.to_vector();
  std::set<size_t> moved;
  const auto f = [&] {
    const std::vector<double> now = x.to_vector();
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i] != before[i]) moved.insert(i);
    }
    return sum(mul(x, x));
  };
  gradcheck(f, inputs, {.elements = 40});
  EXPECT_EQ(moved.size(), 40u);
  for (size_t quarter = 0; quarter < 4; ++quarter) {
    const auto first = moved.lower_bound(quarter * 500),
               end = moved.lower_bound((quarter + 1) * 500);
    EXPECT_GE(std::distance(first, end), 3) << quarter;
  }
}

TEST(Gradcheck, NanIsNeverRight) {
  const Tensor x = from_vector({-1.0}, {1}, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}};
  const auto result = gradcheck([&] { return log(x); }, inputs)[0];
  EXPECT_FALSE(result.passed);
  EXPECT_TRUE(std::isinf(result.error));
}

TEST(Gradcheck, OfElementsEquallyWrongTheFirstIsNamed) {
  const Tensor x = from_vector({-1.0, -2.0}, {2}, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}};
  EXPECT_EQ(gradcheck([&] { return log(x); }, inputs)[0].index, 0);
}

TEST(Gradcheck, OtherTypesAndDevicesAreRefused) {
  const std::vector<GradcheckInput> inputs = {{"w", ones({2})}};
  EXPECT_EQ(test::message_of(ErrorKind::usage,
                             [&] { gradcheck([&] { return sum(inputs[0].tensor); }, inputs); }),
            "gradcheck: w: expected f64 on the reference device, got f32 on cpu.");
}

}  // namespace
}  // namespace whisker
