// The code of docs/internals/adding_an_op.md, as it stands there.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::ElementsAre;

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};

Tensor huber(const Tensor& prediction, const Tensor& target) {
  const Tensor error = abs(prediction - target);
  const Tensor inside = clamp(error, 0, 1);
  return mean(inside * (error - inside * 0.5));  // e^2 / 2 up to 1, e - 1/2 above
}

TEST(AddingAnOpDoc, Composition) {
  const Tensor p = from_vector({0.5, 3}, {2}).set_requires_grad();
  backward(huber(p, zeros({2})));
  EXPECT_THAT(p.grad().to_vector(), ElementsAre(0.25, 0.5));
}

Tensor log_cosh(const Tensor& x) {
  const Tensor y = [&] {
    const NoGrad off_tape;
    return x + softplus(x * -2.0) - std::log(2.0);  // no overflow for large |x|
  }();
  record("log_cosh", {&x}, y,
         [x = save(x)](Gradients& g) { g.accumulate_grad(0, g.dy() * tanh(x(g))); });
  return y;
}

TEST(AddingAnOpDoc, OwnGradient) {
  const Tensor x = from_vector({-50, 0.25, 50}, {3}, exact).set_requires_grad();
  const Tensor y = log_cosh(x);
  EXPECT_NEAR(y.to_vector()[1], std::log(std::cosh(0.25)), 1e-12);
  const Tensor first = grad(sum(y), {{x}}, {.create_graph = true})[0];
  backward(sum(first));
  EXPECT_NEAR(x.grad().to_vector()[1], 1 - std::pow(std::tanh(0.25), 2), 1e-12);
}

}  // namespace
}  // namespace whisker
