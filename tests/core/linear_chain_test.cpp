// A chain of dense layers on the reference device, where it is one operator in f64: it keeps what
// the wanted gradients need, and gives what its layers give one by one.
#include "core/autograd.h"
#include "core/ops.h"

#include <vector>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};

/// x, then w and b of each of three layers.
std::vector<Tensor> operands() {
  const Shape shapes[] = {{4, 3}, {5, 3}, {5}, {2, 5}, {2}, {6, 2}, {6}};
  std::vector<Tensor> all;
  for (const Shape& shape : shapes) all.push_back(rand_normal(shape, 0, 1, 3, all.size(), exact));
  return all;
}

std::vector<LinearOperands> layers_of(const std::vector<Tensor>& all, bool active_end) {
  const ActivationSpec end{active_end ? Activation::sigmoid : Activation::none};
  return {{all[1], all[2], {Activation::tanh}}, {all[3], all[4], {}}, {all[5], all[6], end}};
}

std::vector<std::vector<double>> results(unsigned wants, bool active_end, bool joined) {
  std::vector<Tensor> all = operands(), wanted;
  for (size_t i = 0; i < all.size(); ++i) {
    if ((wants >> i & 1U) != 0) wanted.push_back(all[i].set_requires_grad());
  }
  const std::vector<LinearOperands> layers = layers_of(all, active_end);
  Tensor y = all[0];
  if (joined) {
    EXPECT_EQ(linear_chain_length(y, layers), 3U);
    y = linear_chain(y, layers);
    EXPECT_STREQ(y.node()->name(), "linear_chain");
  } else {
    for (const auto& [w, b, f] : layers) y = linear(y, w, b, f);
  }
  const Tensor dy = rand_normal(y.shape(), 0, 1, 3, 99, exact);
  std::vector<std::vector<double>> found{y.to_vector()};
  for (const Tensor& gradient : grad(y, wanted, {.gradient = dy})) {
    found.push_back(gradient.to_vector());
  }
  return found;
}

TEST(LinearChain, GivesWhateverIsWanted) {
  for (unsigned wants = 1; wants < 128; ++wants) {
    for (const bool active_end : {false, true}) {
      SCOPED_TRACE(fmt::format("{:07b} {}", wants, active_end));
      EXPECT_EQ(results(wants, active_end, true), results(wants, active_end, false));
    }
  }
}

TEST(LinearChain, KeepsWhatGradientsNeedAlone) {
  // The last layer is trained: neither x nor the weights of those before it are needed again.
  const std::vector<Tensor> all = operands();
  all[5].set_requires_grad();
  const Tensor y = linear_chain(all[0], layers_of(all, true));
  for (const size_t frozen : {0, 1, 3, 5}) all[frozen].fill_(0);
  const Tensor trained[] = {all[5]};
  EXPECT_NO_THROW(grad(y, trained, {.gradient = ones(y.shape(), exact)}));
  // The first is: all weights behind it are.
  all[1].set_requires_grad();
  const Tensor again = linear_chain(all[0], layers_of(all, true));
  all[3].fill_(1);
  const Tensor first[] = {all[1]};
  EXPECT_THROW(grad(again, first, {.gradient = ones(y.shape(), exact)}), Error);
}

TEST(LinearChain, NeedsNoMiddleInEvaluation) {
  const std::vector<Tensor> all = operands();
  const std::vector<LinearOperands> layers = layers_of(all, true);
  Tensor y = all[0];
  for (const auto& [w, b, f] : layers) y = linear(y, w, b, f);
  EXPECT_EQ(linear_chain(all[0], layers).to_vector(), y.to_vector());
}

}  // namespace
}  // namespace whisker::test
