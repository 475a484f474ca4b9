// Exported networks pass ONNX's own checker, and no type of layer is forgotten. What they compute
// is compared in tests/apps/exchange_test.py.
#include "layers/builder/layer_factory.h"
#include "tests/support/error_of.h"
#include "train/config/preprocess_config.h"
#include "train/onnx/export_onnx.h"
#include "train/onnx/layers.h"

#include <algorithm>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if WHISKER_ONNX
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#endif

namespace whisker {
namespace {

using testing::HasSubstr;

// Types of model files that no module has, or that cannot be exported yet, and why.
const std::map<std::string, std::string> not_exported = {
    {"activation", "becomes a layer of the activation's name"},
    {"repeat", "becomes the layers that it repeats"},
    {"squeeze_excite", "becomes a multiply"},
};

TEST(OnnxExport, KnowsEveryTypeOfLayer) {
  const std::vector<std::string> known = onnx_layer_types();
  for (const std::string& type : layer_type_names()) {
    const bool exported = std::ranges::count(known, type) == 1;
    EXPECT_NE(exported, not_exported.contains(type))
        << type
        << ": give it a row of `forms` in train/onnx/layers.cpp, or one of not_exported here";
  }
}

Network network_of(const std::string& model, Signature signature, int64_t steps = 5) {
  Model built = build_model(YamlNode::parse(model, "m.yaml"), signature.build_options(1, steps));
  auto arena = std::make_shared<ParameterArena>(built.net->parameters(), cpu_device, 1);
  return {std::move(built), std::move(arena), std::move(signature)};
}

Signature images(int side) {
  Preprocess preprocess;
  preprocess.size = {side, side};
  return {.input = preprocess, .classes = {"cat", "dog"}};
}

#if WHISKER_ONNX

onnx::ModelProto parsed(const Network& network, const OnnxOptions& options = {}) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(export_onnx(network, options)));
  return model;
}

std::string shape_of(const onnx::ValueInfoProto& value) {
  std::string text = value.name() + ":";
  for (const auto& axis : value.type().tensor_type().shape().dim()) {
    text += " " + (axis.has_dim_param() ? axis.dim_param() : std::to_string(axis.dim_value()));
  }
  return text;
}

TEST(OnnxExport, PassesTheChecker) {
  const Network network = network_of("squeezenet1_1", images(64));
  const onnx::ModelProto model = parsed(network, {.probabilities = true});
  onnx::checker::check_model(model);
  EXPECT_EQ(shape_of(model.graph().input(0)), "images: batch 3 64 64");
  EXPECT_EQ(shape_of(model.graph().output(0)), "probabilities: batch 2");
  EXPECT_EQ(model.graph().initializer_size(), 52);
  const auto& weight = model.graph().initializer(0);
  EXPECT_EQ(weight.name(), "features.0.weight");
  EXPECT_EQ(weight.dims(1), 3);  // OIHW, as in weights files
  std::map<std::string, std::string> metadata;
  for (const auto& one : model.metadata_props()) metadata[one.key()] = one.value();
  EXPECT_EQ(metadata["classes"], R"(["cat","dog"])");
  EXPECT_EQ(metadata["arch"], "squeezenet1_1");
  EXPECT_THAT(metadata["preprocess"], HasSubstr(R"("size":64)"));
}

TEST(OnnxExport, PassesTheCheckerWithSequences) {
  const Signature rows{
      .input = RowsInput{.features = 3, .most_steps = 5, .scaling = std::vector<Scaling>(3)},
      .classes = {"a", "b"}};
  const Network network = network_of(
      "[{lstm: {units: 4, layers: 2, bidirectional: true, return_sequences: true}}, batch_norm, "
      "{dense: 5}, {gru: {units: 3, return_sequences: true}}, {simple_rnn: 4}, {dense: classes}]",
      rows);
  const onnx::ModelProto model = parsed(network);
  onnx::checker::check_model(model);
  EXPECT_EQ(shape_of(model.graph().input(0)), "values: steps batch 3");
  EXPECT_EQ(shape_of(model.graph().input(1)), "lengths: batch");
}

// The gates of an LSTM are i f g o in files and i o f c in ONNX.
TEST(OnnxExport, OrdersGatesAsOnnxDoes) {
  const Signature rows{
      .input = RowsInput{.features = 1, .most_steps = 2, .scaling = std::vector<Scaling>(1)},
      .classes = {"a", "b"}};
  const Network network = network_of("[{lstm: {name: lstm, units: 1}}, {dense: classes}]", rows, 2);
  const ParameterList& parameters = network.arena().parameters();
  network.arena().write(*parameters[0], std::vector<float>{1, 2, 3, 4});
  const onnx::ModelProto model = parsed(network);
  const std::string& bytes = model.graph().initializer(0).raw_data();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  EXPECT_THAT(values, testing::ElementsAre(1, 4, 2, 3));
}

TEST(OnnxExport, RefusesWhatOnnxLacks) {
  const Signature rows{
      .input = RowsInput{.features = 3, .most_steps = 5, .scaling = std::vector<Scaling>(3)},
      .classes = {"a", "b"}};
  const Network network =
      network_of("[{lstm: {name: rnn, units: 4, projection: 2}}, {dense: classes}]", rows);
  EXPECT_THAT(test::message_of(ErrorKind::usage, [&] { export_onnx(network); }),
              HasSubstr("export: layer 'rnn' (lstm): ONNX's LSTM has no projection"));
  EXPECT_THAT(
      test::message_of(ErrorKind::usage, [&] { export_onnx(network, {.preprocess = true}); }),
      HasSubstr("expected a network on images"));
}

#else

TEST(OnnxExport, SaysThatTheBuildLacksOnnx) {
  const Network network = network_of("[flatten, {dense: classes}]", images(4));
  EXPECT_THAT(test::message_of(ErrorKind::usage, [&] { export_onnx(network); }),
              HasSubstr("this program was built without ONNX. Install libonnx-dev"));
}

#endif

}  // namespace
}  // namespace whisker
