// Every kind of layer in training on each device, against the reference: result, running statistics
// and all gradients, of the same initial values.
#include "tests/support/devices.h"

#include "core/autograd.h"
#include "core/ops.h"
#include "core/parameters.h"
#include "layers/layers.h"
#include "tests/layers/step_training.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr ActivationSpec relu_spec{.kind = Activation::relu};

struct LayerCase {
  const char* name;
  Shape input;
  std::function<std::shared_ptr<Module>()> make;
  int64_t entries = 0;  ///< above 0: the input is indices below it
};

template <class Layer, class... Arguments>
std::function<std::shared_ptr<Module>()> layer(const Arguments&... arguments) {
  return [=] { return std::make_shared<Layer>(arguments...); };
}

std::shared_ptr<Module> residual() {
  auto body = std::make_shared<Sequential>();
  body->add<Conv2D>({.in_channels = 8, .filters = 8, .padding = 1, .bias = false}, "conv");
  body->add<BatchNorm>({.channels = 8}, "bn");
  return std::make_shared<Residual>(body, nullptr, Residual::Options{});
}

std::shared_ptr<Module> concat() {
  auto one = std::make_shared<Sequential>(), three = std::make_shared<Sequential>();
  one->add<Conv2D>({.in_channels = 8, .filters = 6, .kernel = 1}, "conv");
  three->add<Conv2D>({.in_channels = 8, .filters = 10, .padding = 1}, "conv");
  return std::make_shared<Concat>(std::vector<Concat::Branch>{{"one", one}, {"three", three}});
}

std::vector<LayerCase> layer_cases() {
  const Shape picture{3, 11, 9, 8};
  const auto conv = [](const Conv2D::Options& options) { return layer<Conv2D>(options); };
  const auto recurrent = [](const Recurrent::Options& options) {
    return layer<Recurrent>(options);
  };
  return {
      {"conv2d", picture, conv({.in_channels = 8, .filters = 12, .activation = relu_spec})},
      {"conv2d of a picture", {2, 16, 14, 3}, conv({.in_channels = 3, .filters = 32})},
      {"conv2d, second layer",
       {2, 13, 12, 32},
       conv({.in_channels = 32, .filters = 32, .activation = relu_spec})},
      {"conv2d, strided, same", picture,
       conv({.in_channels = 8,
             .filters = 16,
             .kernel = 4,
             .stride = 2,
             .padding_mode = PaddingMode::same})},
      {"conv2d in groups", picture, conv({.in_channels = 8, .filters = 8, .groups = 4})},
      {"max_pool2d", picture, layer<MaxPool2D>(MaxPool2D::Options{.kernel = 3, .stride = 2})},
      {"avg_pool2d", picture, layer<AvgPool2D>(AvgPool2D::Options{.kernel = 2})},
      {"adaptive_avg_pool2d", picture, layer<AdaptiveAvgPool2D>(Pair(4))},
      {"global_avg_pool2d", picture, layer<GlobalAvgPool2D>()},
      {"batch_norm", picture,
       layer<BatchNorm>(BatchNorm::Options{.channels = 8, .activation = relu_spec})},
      {"layer_norm", {7, 40}, layer<LayerNorm>(LayerNorm::Options{.features = 40})},
      {"dense",
       {5, 24},
       layer<Dense>(
           Dense::Options{.in_features = 24, .units = 17, .activation = {Activation::tanh}})},
      {"activation", picture, layer<ActivationLayer>(ActivationSpec{Activation::silu})},
      {"softmax", {6, 11}, layer<Softmax>()},
      {"flatten", picture, layer<Flatten>()},
      {"dropout", picture, layer<Dropout>(0.4)},
      {"embedding", {5, 4}, layer<Embedding>(Embedding::Options{.entries = 9, .features = 6}), 9},
      {"residual", picture, residual},
      {"concat", picture, concat},
      {"lstm",
       {6, 4, 5},
       recurrent({.features = 5, .units = 8, .layers = 2, .return_sequences = true})},
      {"gru, both ways",
       {6, 4, 5},
       recurrent({.kind = RecurrentKind::gru, .features = 5, .units = 8, .bidirectional = true})},
      {"rnn", {6, 4, 5}, recurrent({.kind = RecurrentKind::rnn_tanh, .features = 5, .units = 8})},
  };
}

/// By name: y, dx, the parameters' gradients, the buffers.
StepResults results_of(const LayerCase& c, Device device, std::optional<DType> compute) {
  auto net = std::make_shared<Sequential>();
  net->add_named("layer", c.make());
  const ParameterList parameters = net->parameters();
  ParameterArena arena(parameters, device, 3, ArenaTypes{.compute = compute});
  Tensor x;
  if (c.entries > 0) {
    x = rand_uniform(c.input, 0, static_cast<double>(c.entries), 1, 1).to(DType::i64).to(device);
  } else {
    const Tensor drawn = rand_normal(c.input, 0, 1, 1, 1).to(arena.compute_dtype());
    x = drawn.to(device).set_requires_grad();
  }
  const Tensor y = (*net)(x, {.training = true, .seed = 4, .step = 2});
  backward(y, {.gradient = rand_normal(y.shape(), 0, 1, 2, 2).to(y.dtype()).to(device)});
  arena.commit_buffers();
  StepResults results{{"y", y.to_vector()}};
  if (c.entries == 0) results.emplace_back("dx", x.grad().to_vector());
  for (const auto& parameter : parameters) {
    const Tensor value = parameter->is_buffer() ? parameter->value() : parameter->value().grad();
    results.emplace_back(parameter->name(), value.to_vector());
  }
  return results;
}

using LayerOn = NetworkOn;
INSTANTIATE_TEST_SUITE_P(, LayerOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

TEST_P(LayerOn, TrainsAsTheReferenceDoes) {
  for (const LayerCase& c : layer_cases()) {
    const StepResults expected = results_of(c, reference_device, {});
    for (const DType dtype : test_dtypes(GetParam())) {
      SCOPED_TRACE(fmt::format("{} in {}", c.name, name_of(dtype)));
      std::optional<DType> compute;
      if (dtype != DType::f32) compute = dtype;
      const StepResults results = results_of(c, GetParam(), compute);
      ASSERT_EQ(results.size(), expected.size());
      // In 16 bits weights and inputs are rounded, too, and rounding turns some of relu's gradients
      // on and off: 0.05 of a residual's in bf16, 0.005 of what has no relu.
      const double tolerance = dtype == DType::f32 ? 1e-5 : dtype == DType::bf16 ? 0.08 : 0.02;
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(results[i].first, expected[i].first);
        ASSERT_EQ(results[i].second.size(), expected[i].second.size());
        EXPECT_LT(relative_error(results[i].second, expected[i].second), tolerance)
            << expected[i].first;
      }
    }
  }
}

}  // namespace
}  // namespace whisker::test
