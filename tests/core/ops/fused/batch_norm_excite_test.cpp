// A batch norm with the squeeze-and-excitation behind it, against the plain operators.
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
  const BatchNormOperands norm{leaves[1],
                               leaves[2],
                               state,
                               {.training = c.training, .activation = c.activation},
                               c.residual ? leaves[3] : Tensor()};
  const Tensor y = batch_norm_excite(leaves[0], norm, [](const Tensor& x) { return sigmoid(x); });
  backward(y, {.gradient = rand_normal(c.x, 0, 1, 9, 5, exact)});
  std::vector<std::vector<double>> all;
  for (const Tensor& one : leaves) all.push_back(one.grad().to_vector());
  return all;
}

TEST(BatchNormExcite, MultipliesInTheNormsBackwardWhereTheDeviceCan) {
  const Case cases[] = {{{2, 3, 2, 5}},
                        {{1, 4, 3, 8}, {Activation::silu}},
                        {{5, 1, 1, 3}, {Activation::hard_swish}},
                        {{2, 3, 3, 4}, {Activation::relu}},
                        {{2, 3, 3, 4}, {Activation::relu}, true},
                        {{2, 2, 3, 3}, {Activation::relu6}, false, false}};
  for (const Case& c : cases) {
    const auto want = gradients(c);  // by the plain operators
    RecordingBackend backend(backend_of(reference_device));
    const ReferenceStandIn stand_in(backend);
    const auto got = gradients(c);
    const int fused = c.training && !c.residual ? 1 : 0;
    EXPECT_EQ(static_cast<RecordedNormalization&>(backend.normalization()).scaled, fused)
        << c.x.str();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(close(got[i], want[i], tolerance(DType::f64, c.x.count()), 0)) << c.x.str() << i;
    }
  }
}

// Backward twice, and with operands that need no gradient.
TEST(BatchNormExcite, KeepsItsFactorsForAnotherBackward) {
  RecordingBackend backend(backend_of(reference_device));
  const ReferenceStandIn stand_in(backend);
  const Tensor x = rand_normal({2, 2, 2, 3}, 0, 1, 9, 1, exact).set_requires_grad();
  const BatchNormOperands norm{ones({3}, exact), zeros({3}, exact), {}, {.training = true}};
  const Tensor y = batch_norm_excite(x, norm, [](const Tensor& m) { return sigmoid(m); });
  const Tensor dy = rand_normal(y.shape(), 0, 1, 9, 2, exact);
  backward(y, {.gradient = dy, .retain_graph = true});
  const std::vector<double> once = x.grad().to_vector();
  backward(y, {.gradient = dy});
  const std::vector<double> twice = x.grad().to_vector();
  for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(twice[i], 2 * once[i]) << i;
}

// The gradient of the averages alone has no factor to be multiplied by.
TEST(BatchNormExcite, AveragesThatAreReadElsewhereHaveTheirGradient) {
  const auto gradient = [] {
    const Tensor x = rand_normal({2, 2, 2, 3}, 0, 1, 9, 1, exact).set_requires_grad();
    const BatchNormOperands norm{ones({3}, exact), zeros({3}, exact), {}, {.training = true}};
    Tensor average;
    batch_norm_excite(x, norm, [&](const Tensor& m) { return average = m * m; });
    backward(average, {.gradient = rand_normal(average.shape(), 0, 1, 9, 2, exact)});
    return x.grad().to_vector();
  };
  const std::vector<double> want = gradient();  // by the plain operators
  RecordingBackend backend(backend_of(reference_device));
  const ReferenceStandIn stand_in(backend);
  EXPECT_TRUE(close(gradient(), want, 1e-12, 1));
}

}  // namespace
}  // namespace whisker::test
