// The code of docs/internals/autograd.md, as it stands there.
#include "core/autograd/autograd.h"

#include "core/autograd/recompute.h"
#include "core/ops/ops.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class AutogradDoc : public testing::Test {
 protected:
  const Tensor x = from_vector({3}, {1}).set_requires_grad();
  const Tensor w = from_vector({2}, {1}).set_requires_grad();
};

TEST(AutogradDocStart, FirstGradient) {
  const Tensor x = from_vector({3}, {1}).set_requires_grad();
  const Tensor w = from_vector({2}, {1}).set_requires_grad();
  const Tensor y = x * w + x;
  backward(y);
  EXPECT_EQ(x.grad().item(), 3);  // dy/dx = w + 1
  EXPECT_EQ(w.grad().item(), 3);  // dy/dw = x
}

struct Names : TapeObserver {
  void on_record(const Node& node, Tensors, Tensors) override { forward.emplace_back(node.name()); }
  void on_backward_begin(const Node& node) override { backward.emplace_back(node.name()); }
  std::vector<std::string> forward, backward;
};

TEST_F(AutogradDoc, Observer) {
  Names names;
  grad_mode.observer = &names;
  const Tensor y = sum(exp(x * w));
  backward(y);
  grad_mode.observer = nullptr;
  EXPECT_THAT(names.forward, ElementsAre("mul", "exp", "sum"));
  EXPECT_THAT(names.backward, ElementsAre("sum", "exp", "mul", "leaf", "leaf"));
}

TEST_F(AutogradDoc, Versions) {
  const Tensor factor = from_vector({2}, {1});
  const Tensor y = mul(x, factor);
  factor.fill_(5);
  EXPECT_THAT([&] { backward(y); }, ThrowsMessage<Error>(HasSubstr("mul: a tensor of shape (1)")));
}

TEST_F(AutogradDoc, Slot) {
  const Tensor slot = full({1}, 99);
  const Tensor p = from_vector({0.5}, {1});
  p.attach(Ref<Node>(new Leaf(p, slot)), 0);
  backward(relu(p));
  EXPECT_EQ(slot.item(), 1);
  backward(relu(p) + relu(p));
  EXPECT_EQ(slot.item(), 3);
}

TEST_F(AutogradDoc, NoGrad) {
  {
    const NoGrad off_tape;
    EXPECT_FALSE((x * w).requires_grad());
  }
}

TEST_F(AutogradDoc, Hook) {
  const Tensor y = x * w;
  y.node()->add_hook([](const Tensor& dy) { return clamp(dy, -1, 1); });
  backward(y * 100.0);
  EXPECT_EQ(w.grad().item(), 3);  // 1 x, not 100 x
}

TEST_F(AutogradDoc, Grad) {
  const Tensor hidden = tanh(x * w);
  const auto g = grad(sum(hidden * hidden), {{hidden}});
  EXPECT_EQ(g[0].item(), 2 * hidden.item());
  EXPECT_FALSE(x.grad().defined());
}

TEST_F(AutogradDoc, Twice) {
  const Tensor y = x * x * x;
  const Tensor first = grad(y, {{x}}, {.create_graph = true})[0];
  backward(first);
  EXPECT_EQ(first.item(), 27);     // 3 x^2
  EXPECT_EQ(x.grad().item(), 18);  // 6 x
}

TEST_F(AutogradDoc, Refusal) {
  const Tensor image = ones({1, 2, 2, 1}).set_requires_grad();
  const Tensor pooled = sum(max_pool2d(image, {}));
  const auto twice = [&] { grad(pooled, {{image}}, {.create_graph = true}); };
  EXPECT_THAT(twice, ThrowsMessage<Error>(HasSubstr("max_pool2d: gradients of gradients")));
}

TEST_F(AutogradDoc, Recomputation) {
  const auto part = [&](const Tensor& h, bool) { return exp(tanh(h * w)); };
  Names names;
  grad_mode.observer = &names;
  const Tensor y = recompute("part", part, x, {{w}});
  backward(y);
  grad_mode.observer = nullptr;
  EXPECT_THAT(names.forward, ElementsAre("mul", "tanh", "exp", "recompute", "mul", "tanh", "exp"));
  EXPECT_THAT(names.backward, ElementsAre("recompute", "exp", "tanh", "mul", "leaf", "leaf"));
}

}  // namespace
}  // namespace whisker
