// Recurrent networks from a model file: every setting, and what is refused.
#include "core/parameters/parameters.h"
#include "layers/builder/model_builder.h"
#include "tests/support/error_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Model built(const std::string& layers, const Shape& input, int64_t classes = 0) {
  return build_model(YamlNode::parse(layers, "net.yaml"),
                     {.input = input, .batch_axis = 1, .classes = classes});
}

TEST(RecurrentBuilder, ReadsEverySetting) {
  const Model model = built(
      "layers: [embedding: {input_dim: 11, output_dim: 4}, GRU: {units: 6, num_layers: 2, "
      "bidirectional: true, dropout: 0.2, return_sequences: true}, layer_norm, dense: 5, LSTM: "
      "{hidden_size: 8, proj_size: 3, bias: false, return_sequences: true}, SimpleRNN: {units: 4, "
      "activation: relu}, dense: classes]",
      {9, 2}, 3);
  EXPECT_EQ(model.output, (Shape{2, 3}));
  std::vector<std::string> described;
  for (size_t i = 0; i < model.net->size(); ++i) {
    const Module& layer = *model.net->layer(i);
    described.push_back(layer.type() + " " + layer.describe());
  }
  EXPECT_THAT(described, ElementsAre("embedding 11 of 4",
                                     "gru 6 x 2 layers bidirectional dropout 0.2 every step",
                                     "layer_norm ", "dense 5", "lstm 8 to 3 every step",
                                     "simple_rnn 4 relu last step", "dense 3"));
  ParameterArena arena(model.net->parameters(), cpu_device, 1);
  const Tensor tokens = from_vector(std::vector<double>(18, 3.0), {9, 2}, {.dtype = DType::i64});
  EXPECT_EQ((*model.net)(tokens, {.training = true}).shape(), (Shape{2, 3}));
}

TEST(RecurrentBuilder, RefusesByPlace) {
  const auto error = [](const std::string& layers, const Shape& input) {
    return test::message_of(ErrorKind::usage, [&] { built(layers, input); });
  };
  EXPECT_EQ(error("layers: [lstm: {units: 8}]", {4, 2}),
            "net.yaml:1:10: layers[0]: layer 'lstm' on (4,2): lstm: expected "
            "(T,N,features) with 2 features, got (4,2)");
  EXPECT_EQ(error("layers: [gru: {units: 8, return_sequences: true}, flatten]", {4, 2, 3}),
            "net.yaml:1:51: layers[1]: flatten keeps the first axis for the samples, and that "
            "of a sequence (4,2,8) counts its steps. End it with simple_rnn, lstm or gru without "
            "return_sequences.");
  EXPECT_EQ(error("layers: [lstm: {units: 4, projection: 4}]", {4, 2, 3}),
            "net.yaml:1:10: layers[0]: lstm: the projection 4 must be smaller than the 4 "
            "units");
  EXPECT_THAT(error("layers: [simple_rnn: {units: 4, activation: gelu}]", {4, 2, 3}),
              HasSubstr("expected tanh or relu, got 'gelu'"));
  EXPECT_THAT(error("layers: [gru: {units: 4, projection: 2}]", {4, 2, 3}),
              HasSubstr("projection"));
}

}  // namespace
}  // namespace whisker
