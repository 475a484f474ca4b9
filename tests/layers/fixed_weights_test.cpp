// Networks whose weights are fixed: batch norms become part of the layers before them and residuals
// are added by convolutions, with the same results.
#include "core/autograd/autograd.h"
#include "core/trace/step_recorder.h"
#include "layers/builder/model_builder.h"
#include "layers/layers.h"
#include "tests/layers/formula_weights.h"
#include "tests/support/devices.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr int64_t side = 64;

struct Filled {
  Model model;
  std::unique_ptr<ParameterArena> arena;
};

/// A preset with norms around one and statistics of their own: see fill_by_formula().
Filled filled(const std::string& section, Device device, DType dtype) {
  Filled made{.model = build_model(YamlNode::parse(section, "test"),
                                   {.input = {1, side, side, 3}, .classes = 3}),
              .arena = {}};
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  made.arena = std::make_unique<ParameterArena>(
      made.model.net->parameters(), device, std::nullopt,
      ArenaTypes{.compute = narrow ? std::optional(dtype) : std::nullopt});
  fill_by_formula(*made.model.net, *made.arena);
  return made;
}

Tensor images(Device device, DType dtype) {
  return rand_normal({2, side, side, 3}, 0, 1, 1, 1).to(device).to(dtype);
}

/// The largest difference relative to the largest magnitude.
double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  EXPECT_EQ(x.size(), y.size());
  double difference = 0, largest = 0;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    difference = std::max(difference, std::fabs(x[i] - y[i]));
    largest = std::max(largest, std::fabs(y[i]));
  }
  EXPECT_GT(largest, 0);
  EXPECT_FALSE(std::isnan(difference));
  return difference / largest;
}

class FixedPreset : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, FixedPreset,
                         testing::Values("small_resnet", "resnet18", "mobilenet_v2",
                                         "mobilenet_v3_small", "densenet121", "efficientnet_b0",
                                         "regnet_y_400mf", "squeezenet1_1", "convnext_tiny"),
                         [](const auto& row) { return row.param; });

TEST_P(FixedPreset, GivesTheLogitsOfTheNetworkAsTrained) {
  const NoGrad inference;
  for (const Device device : test_devices()) {
    if (device.kind == DeviceKind::reference) continue;  // slow
    for (const DType dtype : test_dtypes(device)) {
      SCOPED_TRACE(fmt::format("{} {}", device.str(), name_of(dtype)));
      const Filled made = filled(GetParam(), device, dtype);
      Sequential& net = *made.model.net;
      const Tensor x = images(device, dtype);
      const Tensor before = net(x).to(DType::f32);
      net.fix_weights();
      const double tolerance = dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 0.01 : 0.05;
      for (int pass = 0; pass < 3; ++pass) {  // untimed, timed, chosen
        EXPECT_LT(distance(net(x).to(DType::f32), before), tolerance);
      }
    }
  }
}

std::multiset<std::string> operators_of(Sequential& net, const Tensor& x) {
  StepRecorder recorder;
  net(x);
  std::multiset<std::string> names;
  for (const TapeEntry& entry : recorder.recording().entries) {
    if (entry.kind == TapeKind::op) names.insert(entry.name);
  }
  return names;
}

TEST(FixedWeights, LeaveConvolutionsOfAResNet) {
  const NoGrad inference;
  const Filled made = filled("resnet18", cpu_device, DType::f32);
  Sequential& net = *made.model.net;
  const Tensor x = images(cpu_device, DType::f32);
  EXPECT_EQ(operators_of(net, x).count("batch_norm"), 20u);
  net.fix_weights();
  net(x);  // folds
  const auto names = operators_of(net, x);
  EXPECT_EQ(names.count("batch_norm"), 0u);
  EXPECT_EQ(names.count("add"), 0u);
  EXPECT_EQ(names.count("activation"), 0u);
  EXPECT_EQ(names.count("conv2d") + names.count("conv2d_max_pool2d"), 20u);
}

/// Layers of every kind that a norm may stand behind, and some that it must not be folded into.
std::shared_ptr<Sequential> mixed(ActivationSpec f) {
  auto body = std::make_shared<Sequential>();
  body->add<Conv2D>({.in_channels = 8, .filters = 8, .padding = 1, .groups = 2}, "conv1");
  body->add<BatchNorm>({.channels = 8, .activation = f}, "bn1");
  body->add<Conv2D>({.in_channels = 8, .filters = 12, .padding = 1, .bias = false}, "conv2");
  body->add<BatchNorm>({.channels = 12}, "bn2");
  body->make<DropPath>(0.3);
  auto projection = std::make_shared<Sequential>();
  projection->add<Conv2D>({.in_channels = 8, .filters = 12, .kernel = 1}, "conv");
  projection->add<BatchNorm>({.channels = 12}, "bn");
  auto net = std::make_shared<Sequential>();
  net->add<Conv2D>({.in_channels = 3, .filters = 8, .padding = 1, .activation = f}, "conv");
  net->add<BatchNorm>({.channels = 8, .epsilon = 1e-3}, "bn");  // behind the activation: stays
  net->add<Conv2D>({.in_channels = 8, .filters = 8, .padding = 1}, "conv2");
  net->add<BatchNorm>({.channels = 8}, "bn2");
  net->make<ActivationLayer>(f);
  net->add<MaxPool2D>({.kernel = 2}, "pool");
  net->add_named("block",
                 std::make_shared<Residual>(body, projection, Residual::Options{.activation = f}));
  net->make<GlobalAvgPool2D>();
  net->add<Dense>({.in_features = 12, .units = 6}, "dense");
  net->add<BatchNorm>({.channels = 6}, "bn3");
  net->make<ActivationLayer>(f);
  net->add<Dense>({.in_features = 6, .units = 3}, "head");
  return net;
}

TEST(FixedWeights, TakeAnyActivation) {
  const NoGrad inference;
  for (int kind = 0; kind < activation_count; ++kind) {
    const ActivationSpec f{.kind = static_cast<Activation>(kind), .slope = 0.2f};
    SCOPED_TRACE(name_of(f.kind));
    for (const Device device : test_devices()) {
      const auto net = mixed(f);
      ParameterArena arena(net->parameters(), device, std::nullopt);
      fill_by_formula(*net, arena);
      const Tensor x = rand_normal({2, 8, 8, 3}, 0, 1, 1, 1).to(device);
      const Tensor before = (*net)(x);
      net->fix_weights();
      EXPECT_LT(distance((*net)(x), before), 1e-5) << device.str();
      const size_t left = f.kind == Activation::none ? 0 : 1;  // behind an activation
      EXPECT_EQ(operators_of(*net, x).count("batch_norm"), left) << device.str();
    }
  }
}

// As heat maps and embeddings run them: a range may end between a layer and its norm.
TEST(FixedWeights, ServeEveryRangeOfLayers) {
  const NoGrad inference;
  const auto net = mixed({Activation::relu});
  ParameterArena arena(net->parameters(), cpu_device, std::nullopt);
  fill_by_formula(*net, arena);
  const Tensor x = rand_normal({2, 8, 8, 3}, 0, 1, 1, 1);
  std::vector<Tensor> values;
  for (size_t end = 0; end <= net->size(); ++end) {
    values.push_back(net->forward_range(0, end, {.y = x}, {}).y);
  }
  net->fix_weights();
  for (size_t end = 1; end <= net->size(); ++end) {
    EXPECT_LT(distance(net->forward_range(0, end, {.y = x}, {}).y, values[end]), 1e-5) << end;
    const Tensor rest = net->forward_range(end, net->size(), {.y = values[end]}, {}).y;
    EXPECT_LT(distance(rest, values.back()), 1e-5) << end;
  }
}

// Of a value between layers, as heat maps need them.
TEST(FixedWeights, HaveTheGradientsOfTheNetworkAsTrained) {
  for (const Activation kind : {Activation::relu, Activation::silu}) {
    const auto net = mixed({kind});
    for (const auto& parameter : net->parameters()) parameter->set_trainable(false);
    ParameterArena arena(net->parameters(), cpu_device, std::nullopt);
    fill_by_formula(*net, arena);
    const auto gradient = [&] {
      Tensor x = rand_normal({2, 8, 8, 8}, 0, 1, 1, 1);
      x.set_requires_grad();
      backward(sum(net->forward_range(2, net->size(), {.y = x}, {}).y));
      return x.grad();
    };
    const Tensor before = gradient();
    net->fix_weights();
    EXPECT_LT(distance(gradient(), before), 1e-5) << name_of(kind);
  }
}

TEST(FixedWeights, RefuseTraining) {
  const auto net = mixed({Activation::relu});
  ParameterArena arena(net->parameters(), cpu_device, std::nullopt);
  fill_by_formula(*net, arena);
  net->fix_weights();
  EXPECT_THROW((*net)(rand_normal({2, 8, 8, 3}, 0, 1, 1, 1), {.training = true}), Error);
}

TEST(FixedWeights, StayUnfusedOnRequest) {
  const NoGrad inference;
  const auto net = mixed({Activation::relu});
  net->set_fuse(false);
  ParameterArena arena(net->parameters(), cpu_device, std::nullopt);
  fill_by_formula(*net, arena);
  net->fix_weights();
  EXPECT_EQ(operators_of(*net, rand_normal({2, 8, 8, 3}, 0, 1, 1, 1)).count("batch_norm"), 6u);
}

}  // namespace
}  // namespace whisker::test
