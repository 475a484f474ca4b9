// Each layer: parameters, shapes, and its operator's result where the layer adds something to it.
#include "layers/layers.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

constexpr TensorOptions on_reference{.device = reference_device};

Shape run_shape(Module& module, const Shape& input) {
  ParameterArena arena(module.parameters(), reference_device, 1);
  const Tensor x = rand_normal(input, 0, 1, 5, 5, on_reference);
  const Tensor y = module(x, {.training = true});
  EXPECT_EQ(y.shape(), module.output_shape(input)) << module.type();
  return y.shape();
}

TEST(Layers, ShapesAreThoseOfTheOperators) {
  Conv2D conv({.in_channels = 4,
               .filters = 6,
               .kernel = {3, 5},
               .stride = 2,
               .padding_mode = PaddingMode::same,
               .groups = 2,
               .activation = {Activation::silu}});
  EXPECT_EQ(run_shape(conv, {2, 9, 8, 4}), (Shape{2, 5, 4, 6}));
  MaxPool2D max_pool({.kernel = 3, .stride = 2, .ceil = true});
  EXPECT_EQ(run_shape(max_pool, {1, 8, 8, 3}), (Shape{1, 4, 4, 3}));
  AvgPool2D avg_pool({.kernel = 2});
  EXPECT_EQ(run_shape(avg_pool, {1, 7, 6, 3}), (Shape{1, 3, 3, 3}));
  AdaptiveAvgPool2D adaptive(7);
  EXPECT_EQ(run_shape(adaptive, {1, 5, 9, 2}), (Shape{1, 7, 7, 2}));
  GlobalAvgPool2D global;
  EXPECT_EQ(run_shape(global, {3, 5, 9, 2}), (Shape{3, 2}));
  Dense dense({.in_features = 7, .units = 3, .activation = {Activation::gelu}});
  EXPECT_EQ(run_shape(dense, {4, 2, 7}), (Shape{4, 2, 3}));
  BatchNorm batch_norm({.channels = 3, .activation = {Activation::tanh}});
  EXPECT_EQ(run_shape(batch_norm, {2, 4, 4, 3}), (Shape{2, 4, 4, 3}));
  LayerNorm layer_norm({.features = 5});
  EXPECT_EQ(run_shape(layer_norm, {2, 5}), (Shape{2, 5}));
  GroupNorm group_norm({.channels = 6, .groups = 3});
  EXPECT_EQ(run_shape(group_norm, {2, 3, 4, 6}), (Shape{2, 3, 4, 6}));
  EXPECT_EQ(run_shape(group_norm, {2, 6}), (Shape{2, 6}));
  Flatten flatten;
  EXPECT_EQ(run_shape(flatten, {2, 3, 4, 5}), (Shape{2, 60}));
  Softmax softmax;
  EXPECT_EQ(run_shape(softmax, {2, 3}), (Shape{2, 3}));
}

TEST(Layers, EmbeddingLooksUpRows) {
  Embedding embedding({.entries = 5, .features = 3});
  ParameterArena arena(embedding.parameters(), reference_device, 1);
  const Tensor index = from_vector({4, 0}, {2}, {.dtype = DType::i64, .device = reference_device});
  const Tensor y = embedding(index);
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_EQ(y.shape(), embedding.output_shape({2}));
  const std::vector<double> table = embedding.parameters()[0]->value().to_vector();
  EXPECT_EQ(y.to_vector(),
            (std::vector<double>{table[12], table[13], table[14], table[0], table[1], table[2]}));
}

TEST(Layers, ConcatJoinsChannelsInBranchOrder) {
  auto left = std::make_shared<Sequential>(), right = std::make_shared<Sequential>();
  left->make<ActivationLayer>(ActivationSpec{Activation::relu});
  right->make<Flatten>();
  Concat concat({{"", left}, {"", right}});
  const Tensor x = from_vector({-1, 2, 3, -4}, {2, 2}, on_reference);
  EXPECT_EQ(concat(x).to_vector(), (std::vector<double>{0, 2, -1, 2, 3, 0, 3, -4}));
}

TEST(Layers, MultiplyScalesChannelsOfImages) {
  const auto same = std::make_shared<Sequential>(), mean = std::make_shared<Sequential>();
  mean->make<GlobalAvgPool2D>();
  const Tensor x = from_vector({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 2, 2}, on_reference);  // means 4, 5
  const std::vector<double> scaled = {4, 10, 12, 20, 20, 30, 28, 40};
  Multiply behind({{"", same}, {"", mean}}), before({{"", mean}, {"", same}});
  for (Multiply* multiply : {&behind, &before}) {
    EXPECT_EQ(multiply->output_shape(x.shape()), x.shape());
    EXPECT_EQ((*multiply)(x).to_vector(), scaled);
  }
  Multiply squares({{"", same}, {"", same}, {"", same}});
  EXPECT_EQ(squares(x).to_vector()[2], 27);
}

TEST(Layers, DefaultsStartAsPytorchsDo) {
  Dense dense({.in_features = 100, .units = 50});
  ParameterArena arena(dense.parameters(), reference_device, 4);
  double largest = 0;
  for (const auto& parameter : dense.parameters()) {
    for (const double value : parameter->value().to_vector()) {
      largest = std::max(largest, std::abs(value));
    }
  }
  EXPECT_LE(largest, 0.1);
  EXPECT_GT(largest, 0.099);
}

TEST(Layers, BadOptionsAreRefusedByName) {
  const auto error_of = [](auto make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_TRUE(error_of([] { Conv2D({.in_channels = 3, .filters = 0}); }).starts_with("conv2d: "));
  EXPECT_TRUE(error_of([] { Dense({.in_features = 0, .units = 1}); }).starts_with("dense: "));
  EXPECT_TRUE(error_of([] { BatchNorm({.channels = 0}); }).starts_with("batch_norm: "));
  EXPECT_TRUE(error_of([] { LayerNorm({.features = 0}); }).starts_with("layer_norm: "));
  EXPECT_EQ(error_of([] { GroupNorm({.channels = 6, .groups = 4}); }),
            "group_norm: expected groups that divide the 6 channels, got 4");
  EXPECT_EQ(error_of([] {
              GroupNorm({.channels = 6, .groups = 3}).output_shape({5, 2, 6});
            }),
            "group_norm: expected (N, H, W, 6) or (N, 6), got (5,2,6)");
  EXPECT_TRUE(error_of([] { Embedding({.entries = 0, .features = 1}); }).starts_with("embedding"));
  EXPECT_TRUE(error_of([] { Dropout(1.0); }).starts_with("dropout: "));
  EXPECT_TRUE(error_of([] { Concat({}); }).starts_with("concat: "));
  EXPECT_TRUE(error_of([] { Multiply({}); }).starts_with("multiply: expected at least two"));
  EXPECT_EQ(error_of([] {
              Dense({.in_features = 4, .units = 1}).output_shape({2, 5});
            }),
            "dense: expected (..., 4), got (2,5)");
}

}  // namespace
}  // namespace whisker
