// A batch norm whose result squeeze-and-excitation scales: its backward gets dy, the factors of the
// channels and the mean's gradient, where the device multiplies and adds itself.
#include "core/autograd/autograd.h"
#include "core/backend/registry.h"
#include "core/ops/ops.h"
#include "tests/support/recording_backend.h"
#include "tests/support/tolerance.h"

#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};

struct Case {
  Shape x;
  ActivationSpec activation = {};
  bool residual = false, training = true;
};

/// Gradients of x, gamma, beta and the residual.
std::vector<std::vector<double>> gradients(const Case& c) {
  const Shape channels{c.x[3]};
  const auto leaf = [](const Shape& shape, uint64_t stream) {
    return rand_normal(shape, 0.5, 1, 9, stream, exact).set_requires_grad();
  };
  std::vector<Tensor> leaves = {leaf(c.x, 1), leaf(channels, 2), leaf(channels, 3)};
  if (c.residual) leaves.push_back(leaf(c.x, 4));
  const BatchNormState state{.running_mean = zeros(channels, exact),
                             .running_var = ones(channels, exact),
                             .pending_mean = {},
                             .pending_var = {}};
  const Tensor x = batch_norm(leaves[0], leaves[1], leaves[2], state,
                              {.training = c.training, .activation = c.activation},
                              c.residual ? leaves[3] : Tensor());
  const Tensor y = x * sigmoid(mean(x, {1, 2}, {.keep_axes = true}));
  backward(y, {.gradient = rand_normal(c.x, 0, 1, 9, 5, exact)});
  std::vector<std::vector<double>> all;
  for (const Tensor& one : leaves) all.push_back(one.grad().to_vector());
  return all;
}

TEST(SqueezeExcite, PassesItsFactorsOnToTheNormBefore) {
  const Case cases[] = {{{2, 3, 2, 5}},
                        {{1, 4, 3, 8}, {Activation::silu}},
                        {{5, 1, 1, 3}, {Activation::hard_swish}},
                        {{2, 3, 3, 4}, {Activation::relu}, true},
                        {{2, 2, 3, 3}, {Activation::relu6}, false, false}};
  for (const Case& c : cases) {
    const auto want = gradients(c);  // the reference reads the sum
    RecordingBackend backend(backend_of(reference_device));
    const ReferenceStandIn stand_in(backend);
    const auto got = gradients(c);
    EXPECT_EQ(static_cast<RecordedNormalization&>(backend.normalization()).scaled, 1) << c.x.str();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(close(got[i], want[i], tolerance(DType::f64, c.x.count()), 0)) << c.x.str() << i;
    }
  }
}

}  // namespace
}  // namespace whisker::test
