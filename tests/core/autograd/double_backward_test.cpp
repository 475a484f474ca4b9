// Gradients of gradients: third derivatives, penalties, refusals. The operator table compares those
// of each operator with finite differences.
#include "core/autograd/autograd.h"
#include "tests/core/trace/tape_support.h"

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
