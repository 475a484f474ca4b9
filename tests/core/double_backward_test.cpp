// Gradients of gradients: against closed forms, and against finite differences of the first ones.
#include "core/autograd.h"
#include "tests/core/tape_support.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor first(const Tensor& y, const Tensor& x) {
  return grad(sum(y), {{x}}, {.create_graph = true})[0];
}

TEST(DoubleBackward, CubeThreeTimes) {
  const Tensor x = leaf({2, -1});
  const Tensor d1 = first(x * x * x, x);
  const Tensor d2 = first(d1, x);
  const Tensor d3 = first(d2, x);
  EXPECT_THAT(values(d1), ElementsAre(12, 3));
  EXPECT_THAT(values(d2), ElementsAre(12, -6));
  EXPECT_THAT(values(d3), ElementsAre(6, 6));
}

using Function = std::function<Tensor(const Tensor&)>;
struct Row {
  const char* name;
  Function f;
  double at;
};

class SecondDerivative : public testing::TestWithParam<Row> {};

TEST_P(SecondDerivative, EqualsTheDifferenceOfFirstOnes) {
  const Row& row = GetParam();
  const Tensor x = leaf({row.at, row.at + 0.3}, {1, 2});
  const Tensor d1 = first(row.f(x), x);
  ASSERT_TRUE(d1.requires_grad());
  const auto weighted = grad(sum(d1 * from_vector({1, 2}, {1, 2}, exact)), {{x}});
  const auto weighted_first = [&](int i, double step) {
    auto moved = values(x);
    moved[static_cast<size_t>(i)] += step;
    const Tensor at = from_vector(moved, {1, 2}, exact).set_requires_grad();
    const auto d = values(grad(sum(row.f(at)), {{at}})[0]);
    return d[0] + 2 * d[1];
  };
  for (int i = 0; i < 2; ++i) {
    constexpr double h = 1e-5;
    const double expected = (weighted_first(i, h) - weighted_first(i, -h)) / (2 * h);
    EXPECT_NEAR(values(weighted[0])[static_cast<size_t>(i)], expected,
                1e-8 * (1 + std::abs(expected)));
  }
}

const Tensor constant = from_vector({0.7, -1.2, 0.4, 2.0}, {2, 2}, exact);

INSTANTIATE_TEST_SUITE_P(
    Functions, SecondDerivative,
    testing::Values(
        Row{"tanh", [](const Tensor& x) { return tanh(x); }, 0.4},
        Row{"sigmoid", [](const Tensor& x) { return sigmoid(x); }, -0.7},
        Row{"gelu", [](const Tensor& x) { return gelu(x); }, 0.9},
        Row{"silu", [](const Tensor& x) { return silu(x); }, -1.1},
        Row{"softplus", [](const Tensor& x) { return softplus(x); }, 0.2},
        Row{"relu_of_square", [](const Tensor& x) { return relu(x * x * x); }, 0.5},
        Row{"nested", [](const Tensor& x) { return tanh(sigmoid(x) * x); }, 0.8},
        Row{"exp", [](const Tensor& x) { return exp(x * x); }, 0.3},
        Row{"log", [](const Tensor& x) { return log(x); }, 1.3},
        Row{"sqrt", [](const Tensor& x) { return sqrt(x); }, 1.7},
        Row{"reciprocal", [](const Tensor& x) { return reciprocal(x); }, -1.9},
        Row{"pow", [](const Tensor& x) { return pow(x, 3.5); }, 1.1},
        Row{"abs", [](const Tensor& x) { return abs(x * x * x); }, -1.4},
        Row{"clamp", [](const Tensor& x) { return clamp(x * x, 0.1, 9) * x; }, 1.2},
        Row{"div", [](const Tensor& x) { return exp(x) / x; }, 0.9},
        Row{"maximum", [](const Tensor& x) { return maximum(x * x, exp(x)); }, 0.9},
        Row{"mean", [](const Tensor& x) { return mean(x * x, {1}) * sum(x); }, 0.5},
        Row{"var", [](const Tensor& x) { return var(exp(x), {1}); }, 0.5},
        Row{"max", [](const Tensor& x) { return max(x * x * x, {1}); }, 0.5},
        Row{"matmul",
            [](const Tensor& x) {
              return matmul(matmul(x, constant), transpose(x, {1, 0}));
            },
            0.5},
        Row{"linear", [](const Tensor& x) { return tanh(linear(x, constant, {})); }, 0.5},
        Row{"concat",
            [](const Tensor& x) {
              return tanh(concat({x, x * x}, 0));
            },
            0.5},
        Row{"pad_slice",
            [](const Tensor& x) {
              return exp(slice(pad(x, {{{1, 1}, {0, 2}}}), 1, 0, 3));
            },
            0.5},
        Row{"dropout", [](const Tensor& x) { return exp(dropout(x, 0.25, {.seed = 3})); }, 0.5},
        Row{"where", [](const Tensor& x) { return where(greater(x, x * x), x * x * x, exp(x)); },
            0.8}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(DoubleBackward, GradientPenaltyReachesTheWeights) {
  const Tensor x = leaf({0.5, -0.3, 0.8, 0.1}, {2, 2});
  const Tensor b = leaf({0.1, -0.2, 0.3});
  const auto penalty = [&](const Tensor& w) {
    const Tensor slope = first(tanh(linear(x, w, b)), x);
    return sum(slope * slope);
  };
  const Tensor w = leaf({0.2, 0.4, -0.6, 0.8, 1.0, -1.2}, {3, 2});
  backward(penalty(w));
  for (size_t i = 0; i < 6; ++i) {
    const auto moved = [&](double step) {
      auto v = values(w);
      v[i] += step;
      return penalty(from_vector(v, {3, 2}, exact)).item();
    };
    EXPECT_NEAR(values(w.grad())[i], (moved(1e-5) - moved(-1e-5)) / 2e-5, 1e-8);
  }
}

TEST(DoubleBackward, IsRefusedByNameWhereThereIsNone) {
  const Tensor x = leaf({1, 2, 3, 4}, {1, 2, 2, 1});
  const Tensor w = leaf({0.5, 1, 1.5, 2}, {1, 2, 2, 1});
  EXPECT_THAT(error_of([&] { first(conv2d(x, w, {}), x); }),
              AllOf(HasSubstr("2: conv2d:"), HasSubstr("gradients of gradients")));
  EXPECT_THAT(error_of([&] { first(max_pool2d(x, {}), x); }), HasSubstr("max_pool2d"));
  const Tensor flat = leaf({1, 2}, {1, 2});
  EXPECT_THAT(error_of([&] { first(linear(flat, flat, {}, {Activation::relu}), flat); }),
              AllOf(HasSubstr("linear"), HasSubstr("fuse: false")));
  EXPECT_THAT(error_of([&] { first(softmax(flat), flat); }), HasSubstr("softmax"));
  const Tensor third = first(first(tanh(flat), flat), flat);
  EXPECT_THAT(error_of([&] { backward(sum(third)); }),
              AllOf(HasSubstr("tanh"), HasSubstr("third")));
}

}  // namespace
}  // namespace whisker
