// Names, order, freezing, and passes through containers.
#include "layers/module.h"

#include "core/ops/ops.h"
#include "layers/layers.h"
#include "tests/support/error_of.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

std::shared_ptr<Sequential> small_network() {
  auto block = std::make_shared<Sequential>();
  block->add<Conv2D>({.in_channels = 4, .filters = 4, .padding = 1, .bias = false}, "conv1");
  block->add<BatchNorm>({.channels = 4}, "bn1");
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 4, .activation = {Activation::relu}});
  net->add_named("layer1.0", std::make_shared<Residual>(block, nullptr, Residual::Options{}));
  net->make<GlobalAvgPool2D>();
  net->add<Dense>({.in_features = 4, .units = 2}, "fc");
  return net;
}

TEST(Module, NamesAreDottedAndInLayerOrder) {
  const auto net = small_network();
  std::vector<std::string> names;
  for (const auto& parameter : net->parameters()) names.push_back(parameter->name());
  EXPECT_EQ(names, (std::vector<std::string>{"conv2d.weight", "conv2d.bias",
                                             "layer1.0.conv1.weight", "layer1.0.bn1.weight",
                                             "layer1.0.bn1.bias", "layer1.0.bn1.running_mean",
                                             "layer1.0.bn1.running_var", "fc.weight", "fc.bias"}));
  net->set_path("model");
  EXPECT_EQ(net->parameters()[2]->name(), "model.layer1.0.conv1.weight");
}

TEST(Module, TwoParametersOfOneNameAreRefused) {
  Sequential net;
  net.add<Dense>({.in_features = 2, .units = 2}, "a");
  net.add<Dense>({.in_features = 2, .units = 2}, "a");
  EXPECT_THROW(net.parameters(), Error);
}

TEST(Module, FreezeTakesPatternsAndModuleNames) {
  const auto net = small_network();
  const std::vector<std::string> patterns = {"layer1", "conv2d.*"};
  EXPECT_EQ(net->freeze(patterns), 5);
  for (const auto& parameter : net->parameters()) {
    EXPECT_EQ(parameter->trainable(), parameter->name().starts_with("fc")) << parameter->name();
  }
  const std::vector<std::string> slip = {"layr1"};
  EXPECT_EQ(test::message_of(ErrorKind::usage, [&] { net->freeze(slip); }),
            "freeze: 'layr1' matches no parameter; did you mean 'layer1'?");
}

TEST(Module, AFrozenBatchNormKeepsItsStatistics) {
  const Tensor x = rand_normal({4, 3, 3, 2}, 5, 2, 1, 1, {.device = reference_device});
  for (const bool freeze : {false, true}) {
    Sequential net;
    net.add<BatchNorm>({.channels = 2}, "bn");
    const std::vector<std::string> patterns = {"bn"};
    if (freeze) net.freeze(patterns);
    ParameterArena arena(net.parameters(), reference_device, 1);
    const Tensor y = net(x, {.training = true});
    arena.commit_buffers();
    const double mean = net.parameters()[2]->value().to_vector()[0];
    if (freeze) {
      EXPECT_EQ(mean, 0);
      EXPECT_FALSE(y.requires_grad());
      EXPECT_NEAR(y.to_vector()[0], x.to_vector()[0] / std::sqrt(1 + 1e-5), 1e-5);
    } else {
      EXPECT_NEAR(mean, 0.5, 0.2);
    }
  }
}

TEST(Module, DropoutMasksDependOnNameSeedAndStep) {
  const auto run = [](const std::string& name, Pass pass) {
    Sequential net;
    net.add_named(name, std::make_shared<Dropout>(0.5));
    return net(ones({64}, {.device = reference_device}), pass).to_vector();
  };
  const Pass pass{.training = true, .seed = 3, .step = 8};
  EXPECT_EQ(run("a", pass), run("a", pass));
  EXPECT_NE(run("a", pass), run("b", pass));
  EXPECT_NE(run("a", pass), run("a", {.training = true, .seed = 3, .step = 9}));
  EXPECT_NE(run("a", pass), run("a", {.training = true, .seed = 4, .step = 8}));
  EXPECT_EQ(run("a", {}), std::vector<double>(64, 1.0));
}

}  // namespace
}  // namespace whisker
