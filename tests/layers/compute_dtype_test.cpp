// Layers in bf16: activations and the weights they read are bf16, normalisation parameters and
// statistics f32, and what comes out is the f32 network's result within bf16's rounding.
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "layers/layers.h"
#include "tests/layers/step_training.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

std::shared_ptr<Sequential> every_kind_of_layer() {
  auto block = std::make_shared<Sequential>();
  block->add<Conv2D>({.in_channels = 8, .filters = 8, .padding = 1, .bias = false}, "conv1");
  block->add<BatchNorm>({.channels = 8}, "bn1");
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 8, .activation = {Activation::relu}});
  net->add<BatchNorm>({.channels = 8, .activation = {Activation::relu}});
  net->add_named("block", std::make_shared<Residual>(
                              block, nullptr, Residual::Options{.activation = {Activation::gelu}}));
  net->add_named("dropout", std::make_shared<Dropout>(0.25));
  net->make<Flatten>();
  net->add<LayerNorm>({.features = 8 * 6 * 6});
  net->add<Dense>({.in_features = 8 * 6 * 6, .units = 16, .activation = {Activation::tanh}});
  net->add<Dense>({.in_features = 16, .units = 3}, "head");
  return net;
}

struct DTypeNetwork {
  explicit DTypeNetwork(std::optional<DType> compute)
      : net(every_kind_of_layer()),
        arena(net->parameters(), cpu_device, 5, ArenaTypes{.compute = compute}) {
    const Tensor images = rand_normal({8, 8, 8, 3}, 0, 1, 1, 1).to(arena.compute_dtype());
    const Tensor labels = from_vector({0, 1, 2, 0, 1, 2, 0, 1}, {8}, {.dtype = DType::i64});
    logits = (*net)(images, {.training = true, .seed = 3}).to(DType::f32);
    backward(cross_entropy(logits, labels));
  }
  std::shared_ptr<Sequential> net;
  ParameterArena arena;
  Tensor logits;
};

TEST(ComputeDType, Bf16LayersFollowTheF32Network) {
  const DTypeNetwork exact({}), narrow(DType::bf16);
  // About ten roundings of 2^-9 in a row, forward and again backward.
  const double forward = test::relative_error(narrow.logits.to_vector(), exact.logits.to_vector());
  EXPECT_GT(forward, 0) << "nothing was rounded";
  EXPECT_LT(forward, 0.03);
  for (size_t i = 0; i < exact.arena.parameters().size(); ++i) {
    const Parameter& p = *narrow.arena.parameters()[i];
    const Parameter& q = *exact.arena.parameters()[i];
    const bool norm = p.role() == ParameterRole::norm;
    const std::vector<double> got =
        p.is_buffer() ? p.pending().to_vector() : p.gradient().to_vector();
    const std::vector<double> want =
        q.is_buffer() ? q.pending().to_vector() : q.gradient().to_vector();
    EXPECT_EQ(p.value().dtype(), norm || p.is_buffer() ? DType::f32 : DType::bf16) << p.name();
    if (!p.is_buffer()) {
      EXPECT_EQ(p.gradient().dtype(), p.value().dtype()) << p.name();
    }
    EXPECT_LT(test::relative_error(got, want), 0.1) << p.name();
  }
}

}  // namespace
}  // namespace whisker
