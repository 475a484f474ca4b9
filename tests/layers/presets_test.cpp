// Presets against the counts of the networks they are named after.
#include "layers/builder/presets.h"

#include "core/autograd/autograd.h"
#include "core/backend/registry.h"
#include "core/ops/ops.h"
#include "layers/builder/model_builder.h"
#include "layers/memory_plan.h"
#include "tests/support/error_of.h"
#include "tests/support/recording_backend.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

/// Side 0: sequences of 10 features.
Model build_preset(const std::string& name, int64_t side, int64_t classes) {
  if (side == 0) {
    return build_model(YamlNode::parse(name, "test"),
                       {.input = {8, 1, 10}, .batch_axis = 1, .classes = classes});
  }
  return build_model(YamlNode::parse(name, "test"),
                     {.input = {1, side, side, 3}, .classes = classes});
}

struct PresetCounts {
  const char* name;
  int64_t side, classes;
  int64_t elements, tensors;  // of trained parameters
};

TEST(Presets, HaveTheirParameterCounts) {
  const PresetCounts rows[] = {{"resnet18", 224, 1000, 11'689'512, 62},
                               {"resnet50", 224, 1000, 25'557'032, 161},
                               {"resnet34", 224, 1000, 21'797'672, 110},
                               {"resnet101", 224, 1000, 44'549'160, 314},
                               {"mobilenet_v2", 224, 1000, 3'504'872, 158},
                               {"mobilenet_v3_small", 224, 1000, 2'542'856, 142},
                               {"mobilenet_v3_large", 224, 1000, 5'483'032, 174},
                               {"densenet121", 224, 1000, 7'978'856, 364},
                               {"efficientnet_b0", 224, 1000, 5'288'548, 213},
                               {"efficientnet_lite0", 224, 1000, 4'652'008, 149},
                               {"efficientnet_v2_s", 384, 1000, 21'458'488, 452},
                               {"regnet_y_400mf", 224, 1000, 4'344'144, 225},
                               {"convnext_tiny", 224, 1000, 28'589'128, 182},
                               {"vit_b_16", 224, 1000, 86'567'656, 152},
                               {"vit_s_16", 224, 1000, 22'050'664, 152},
                               {"vit_b_16_384", 384, 1000, 86'859'496, 152},
                               {"vit_s_16_384", 384, 1000, 22'196'584, 152},
                               {"vgg16", 224, 1000, 138'357'544, 32},
                               {"squeezenet1_1", 224, 1000, 1'235'496, 52},
                               {"keras_small", 64, 2, 3'937'409, 6},
                               {"chollet", 128, 2, 2'601'666, 12},
                               {"small_resnet", 128, 2, 1'226'914, 38},
                               {"simple_rnn", 0, 2, 4'929, 6},
                               {"lstm", 0, 2, 19'521, 6}};
  for (const Preset& preset : presets()) {  // those of variants.yaml: families_test.cpp
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const auto& row) { return row.name == preset.name; }))
        << preset.name;
  }
  for (const PresetCounts& row : rows) {
    EXPECT_EQ(reads_rows(*find_preset(row.name)), row.side == 0) << row.name;
    const Model model = build_preset(row.name, row.side, row.classes);
    int64_t elements = 0, tensors = 0;
    for (const auto& parameter : model.net->parameters()) {
      if (parameter->is_buffer()) continue;
      elements += parameter->shape().count();
      ++tensors;
    }
    EXPECT_EQ(elements, row.elements) << row.name;
    EXPECT_EQ(tensors, row.tensors) << row.name;
    EXPECT_EQ(model.preset, row.name);
    if (row.side == 0) {
      EXPECT_EQ(model.output_kind, OutputKind::sigmoid) << row.name;
      EXPECT_EQ(model.output, (Shape{1, 1})) << row.name;
    }
  }
}

// What a layer, the section or a preset says of positions counts, in this order.
TEST(Presets, TakeTheGridOfPositionsThatIsSaid) {
  const auto positions = [](const std::string& section) {
    const Model model =
        build_model(YamlNode::parse(section, "test"), {.input = {1, 64, 64, 3}, .classes = 3});
    for (const auto& parameter : model.net->parameters()) {
      if (parameter->name().ends_with("pos_embed")) return parameter->shape()[1];
    }
    return int64_t{0};
  };
  const std::string layers =
      "[conv2d: {filters: 8, kernel: 16, strides: 16}, position_embedding: {name: pos_embed%}, "
      "global_avg_pool2d, dense: {units: classes}]";
  const auto with = [&](const std::string& settings) {
    return std::string(layers).replace(layers.find('%'), 1, settings);
  };
  EXPECT_EQ(positions("vit_s_16"), 1 + 14 * 14);
  EXPECT_EQ(positions("vit_s_16_384"), 1 + 24 * 24);
  EXPECT_EQ(positions("{preset: vit_s_16_384, grid: 32}"), 1 + 32 * 32);
  EXPECT_EQ(positions(with("")), 4 * 4);  // as the image
  EXPECT_EQ(positions("{grid: 6, layers: " + with("") + "}"), 6 * 6);
  EXPECT_EQ(positions("{grid: 6, layers: " + with(", grid: 5") + "}"), 5 * 5);
  EXPECT_THAT(test::message_of(ErrorKind::usage, [&] { positions("{preset: vit_s_16, grid: 0}"); }),
              testing::HasSubstr("from 1 to 256"));
}

// On a device that multiplies there, every block is one operator with the norm before it.
TEST(Presets, WriteNoGradientOfWhatSqueezeExciteScales) {
  test::RecordingBackend backend(backend_of(reference_device));
  const ReferenceStandIn stand_in(backend);
  auto& norms = static_cast<test::RecordedNormalization&>(backend.normalization());
  const std::pair<const char*, int> blocks[] = {
      {"efficientnet_b0", 16}, {"mobilenet_v3_large", 8}, {"regnet_y_400mf", 16}};
  for (const auto& [name, count] : blocks) {
    const Model model = build_preset(name, 32, 3);
    const ParameterArena arena(model.net->parameters(), reference_device, 1);
    norms.scaled = 0;
    const Tensor images = rand_normal({2, 32, 32, 3}, 0, 1, 1, 1, {.device = reference_device});
    backward(sum((*model.net)(images, {.training = true})));
    EXPECT_EQ(norms.scaled, count) << name;
  }
}

TEST(Presets, CarryTorchvisionsNamesInItsOrder) {
  const Model model = build_preset("resnet50", 224, 1000);
  const ParameterList parameters = model.net->parameters();
  EXPECT_EQ(parameters.front()->name(), "conv1.weight");
  EXPECT_EQ(parameters.back()->name(), "fc.bias");
  const auto position = [&](const std::string& name) {
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const auto& p) { return p->name() == name; });
    EXPECT_NE(found, parameters.end()) << name;
    return found - parameters.begin();
  };
  EXPECT_LT(position("layer1.0.bn3.running_var"), position("layer1.0.downsample.0.weight"));
  EXPECT_LT(position("layer1.0.downsample.1.bias"), position("layer1.1.conv1.weight"));
  EXPECT_LT(position("layer4.2.conv3.weight"), position("fc.weight"));
}

TEST(Presets, TheResidualAddOfEveryResnetBlockRunsInItsBatchNorm) {
  const Model model = build_preset("resnet18", 224, 10);
  const std::vector<std::string> notes = MemoryPlan::of(*model.net, model.input).notes();
  EXPECT_EQ(std::count_if(notes.begin(), notes.end(),
                          [](const std::string& note) { return note.starts_with("add of layer"); }),
            8);
}

}  // namespace
}  // namespace whisker
