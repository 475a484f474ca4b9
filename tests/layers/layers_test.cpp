// Results of layers where they add something to their operator's, and what layers refuse.
#include "layers/layers.h"

#include "tests/support/error_of.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

constexpr TensorOptions on_reference{.device = reference_device};

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
  const auto error_of = [](auto make) { return test::message_of(ErrorKind::usage, make); };
  EXPECT_TRUE(error_of([] { Conv2D({.in_channels = 3, .filters = 0}); }).starts_with("conv2d: "));
  EXPECT_TRUE(error_of([] { Dense({.in_features = 0, .units = 1}); }).starts_with("dense: "));
  EXPECT_TRUE(error_of([] { BatchNorm({.channels = 0}); }).starts_with("batch_norm: "));
  EXPECT_TRUE(error_of([] { LayerNorm({.features = 0}); }).starts_with("layer_norm: "));
  EXPECT_EQ(error_of([] { GroupNorm({.channels = 6, .groups = 4}); }),
            "group_norm: expected groups that divide the 6 channels, got 4. Set groups.");
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
