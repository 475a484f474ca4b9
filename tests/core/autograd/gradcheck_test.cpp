// The judge itself: right gradients pass, wrong ones are found with their place, kinks forgiven.
#include "core/autograd/gradcheck.h"

#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "core/trace/gradcheck_twice.h"
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

TEST(Gradcheck, AKinkAtThePointIsNamedAndItsGradientIsOneOfItsSlopes) {
  const Tensor x = from_vector({0, 2, 3e-6, -1}, {4}, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}};
  const auto result = gradcheck([&] { return sum(relu(x)); }, inputs)[0];
  EXPECT_TRUE(result.passed) << result.error;
  ASSERT_EQ(result.kinks.size(), 1u);  // 3e-6 is near one
  EXPECT_EQ(result.kinks[0].index, 0);
  EXPECT_NEAR(result.kinks[0].left, 0, 1e-6);
  EXPECT_NEAR(result.kinks[0].right, 1, 1e-6);
  // abs: 0 is the slope of no side, but between them. A gradient beyond both is wrong.
  const auto at_zero = gradcheck([&] { return sum(abs(x)); }, inputs)[0];
  EXPECT_TRUE(at_zero.passed);
  EXPECT_EQ(at_zero.kinks.size(), 1u);
  const Tensor origin = from_vector({0}, {1}, f64);
  const std::vector<GradcheckInput> one = {{"origin", origin}};
  const auto too_large = [&] { return sum(abs(origin)) + sum(origin * 3 - origin.detach() * 3); };
  EXPECT_FALSE(gradcheck(too_large, one)[0].passed);
}

TEST(Gradcheck, SteepCurvatureIsNoKink) {
  const Tensor x = from_vector({1e-3}, {1}, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}};
  const auto result = gradcheck([&] { return sum(log(x)); }, inputs, {.tolerance = 1e-3})[0];
  EXPECT_TRUE(result.kinks.empty());
}

TEST(Gradcheck, GradientsOfGradientsAreComparedToo) {
  const Tensor x = rand_normal({2, 3}, 0, 1, 1, 1, f64), w = rand_normal({3, 2}, 0, 1, 1, 2, f64);
  const std::vector<GradcheckInput> inputs = {{"x", x}, {"w", w}};
  const auto results = gradcheck_twice([&] { return tanh(matmul(x, w)); }, inputs);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[2].name, "dy");
  for (const GradcheckResult& result : results) EXPECT_TRUE(result.passed) << result.name;
  // Right gradients whose own gradients are wrong: the factor is off the tape.
  const auto cube = [&] {
    const Tensor y = x.detach() * x.detach() * x.detach();
    record("cube", {&x}, y,
           [x](Gradients& g) { g.accumulate_grad(0, g.dy() * (x * x).detach() * 3); });
    return y;
  };
  const std::vector<GradcheckInput> only_x = {{"x", x}};
  EXPECT_TRUE(gradcheck(cube, only_x)[0].passed);
  EXPECT_FALSE(gradcheck_twice(cube, only_x)[0].passed);
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
