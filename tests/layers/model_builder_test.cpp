// Model files: the vocabulary, names, shapes, fused operators, and every error with its place.
#include "layers/builder/model_builder.h"

#include "layers/layers.h"
#include "layers/memory_plan.h"
#include "tests/support/error_of.h"
#include "tests/support/tolerance.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Model build(const std::string& text, const Shape& input = {2, 32, 32, 3}, int64_t classes = 0) {
  return build_model(YamlNode::parse(text, "m.yaml"), {.input = input, .classes = classes});
}

std::string error_of(const std::string& text, const Shape& input = {2, 32, 32, 3},
                     int64_t classes = 0) {
  return test::message_of(ErrorKind::usage, [&] { build(text, input, classes); });
}

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> names;
  for (const auto& parameter : model.net->parameters()) names.push_back(parameter->name());
  return names;
}

TEST(ModelBuilder, KerasVocabularyAndDefaultNames) {
  const Model model = build(R"(
layers:
  - conv2d: {filters: 8, kernel: 3, activation: relu, padding: same, strides: 2}
  - max_pool2d: 2
  - conv2d: {filters: 16, kernel: [3, 1]}
  - batch_norm
  - flatten
  - dropout: 0.5
  - dense: 10
)");
  EXPECT_EQ(model.output, (Shape{2, 10}));
  EXPECT_EQ(names_of(model), (std::vector<std::string>{
                                 "conv2d.weight", "conv2d.bias", "conv2d_1.weight", "conv2d_1.bias",
                                 "batch_norm.weight", "batch_norm.bias", "batch_norm.running_mean",
                                 "batch_norm.running_var", "dense.weight", "dense.bias"}));
  const ParameterList parameters = model.net->parameters();
  EXPECT_EQ(parameters[2]->shape(), (Shape{16, 3, 1, 8}));
  EXPECT_EQ(parameters[8]->shape(), (Shape{10, 6 * 8 * 16}));
  EXPECT_EQ(parameters[8]->flattened_channels, 16);
}

// Older configurations repeat them: these layers were always part of the one before.
TEST(ModelBuilder, ActivationsAndPoolingMayShareAName) {
  const Model model = build(R"(
- repeat: {n: 2, layers: [{conv2d: {filters: 4, kernel: 3}}, {relu: {name: act}}]}
- max_pool2d: {name: act, kernel: 2}
)");
  EXPECT_EQ(names_of(model), (std::vector<std::string>{"conv2d.weight", "conv2d.bias",
                                                       "conv2d_1.weight", "conv2d_1.bias"}));
}

TEST(ModelBuilder, TheSectionMayBeTheListItself) {
  const char* list = "[conv2d: {filters: 4, kernel: 3}, relu, global_avg_pool2d]";
  const Model plain = build(list);
  EXPECT_EQ(names_of(plain), names_of(build(fmt::format("layers: {}", list))));
  EXPECT_EQ(plain.output, Shape({2, 4}));
  EXPECT_EQ(plain.preset, "");
  EXPECT_THAT(error_of("[conv2d: {filtres: 4}]"), testing::HasSubstr("m.yaml:1:"));
}

TEST(ModelBuilder, SynonymsBuildTheSameNetwork) {
  const Model keras = build(R"(
layers:
  - conv2d: {filters: 4, kernel: 3, strides: 2, use_bias: false}
  - max_pool2d: {kernel: 3, strides: 2}
  - global_avg_pool2d
  - dense: {units: 5}
)");
  const Model torch = build(R"(
layers:
  - Conv2D: {out_channels: 4, kernel_size: 3, stride: 2, bias: false}
  - MaxPooling2D: {pool_size: 3, stride: 2}
  - GlobalAveragePooling2D
  - Linear: {out_features: 5}
)");
  EXPECT_EQ(names_of(keras), names_of(torch));
  EXPECT_EQ(keras.output, torch.output);
}

TEST(ModelBuilder, FusesMaxPoolingAndSaysSo) {
  const std::string text = R"(
layers:
  - conv2d: {filters: 4, kernel: 3}
  - relu
  - max_pool2d: {kernel: 3, strides: 2}
  - max_pool2d: 2
  - conv2d: {name: second, filters: 4, kernel: 3, activation: gelu}
  - max_pool2d: 2
  - conv2d: {name: third, filters: 4, kernel: 1}
  - max_pool2d: 1
  - tanh
  - conv2d: {name: fourth, filters: 4, kernel: 1}
  - max_pool2d: 1
  - gelu
)";
  const Model fused = build(text);
  EXPECT_EQ(MemoryPlan::of(*fused.net, fused.input).notes(),
            (std::vector<std::string>{"relu into conv2d", "max_pool2d into conv2d",
                                      "max_pool2d into third", "tanh into third",
                                      "max_pool2d into fourth"}));
  EXPECT_EQ(MemoryPlan::of(*fused.net, fused.input).operators()[0].what,
            "conv2d 4 3x3 relu, max-pool 3x3 /2");
  const Model unfused = build(text + "fuse: false\n");
  EXPECT_EQ(MemoryPlan::of(*unfused.net, unfused.input).operators().size(), 13u);
  EXPECT_EQ(fused.output, unfused.output);

  const ParameterArena first(fused.net->parameters(), cpu_device, 1);
  const ParameterArena second(unfused.net->parameters(), cpu_device, 1);
  const Tensor x = rand_normal({2, 32, 32, 3}, 0, 1, 1, 1);
  EXPECT_EQ(fused.net->forward(x).to_vector(), unfused.net->forward(x).to_vector());
}

TEST(ModelBuilder, UnfusedLayersHaveTheirActivationsBehindThem) {
  const std::string text = R"(
layers:
  - conv2d: {filters: 4, kernel: 3, activation: relu}
  - batch_norm: {activation: relu}
  - global_avg_pool2d
  - dense: {units: 3, activation: tanh}
  - dense: 2
)";
  const Model fused = build(text), unfused = build(text + "fuse: false\n");
  std::vector<std::string> parts;
  const MemoryPlan plan = MemoryPlan::of(*unfused.net, unfused.input);
  for (const PlannedOperator& one : plan.operators()) {
    parts.push_back(one.what.substr(0, one.what.find(' ')));
  }
  EXPECT_EQ(parts, (std::vector<std::string>{"conv2d", "relu", "batch_norm", "relu",
                                             "global_avg_pool2d", "dense", "tanh", "dense"}));
  const ParameterArena first(fused.net->parameters(), cpu_device, 1);
  const ParameterArena second(unfused.net->parameters(), cpu_device, 1);
  const Tensor x = rand_normal({2, 32, 32, 3}, 0, 1, 1, 1);
  EXPECT_TRUE(
      test::close(unfused.net->forward(x).to_vector(), fused.net->forward(x).to_vector(), 1e-6, 0));
}

TEST(ModelBuilder, OutputActivationBelongsToTheLoss) {
  const Model sigmoid =
      build("layers: [flatten, dense: {units: 1, activation: sigmoid}]", {2, 4, 4, 3}, 2);
  EXPECT_EQ(sigmoid.output_kind, OutputKind::sigmoid);
  EXPECT_EQ(static_cast<Dense&>(*sigmoid.net->layer(1)).options().activation.kind,
            Activation::none);
  const Model separate = build("layers: [flatten, dense: classes, softmax]", {2, 4, 4, 3}, 7);
  EXPECT_EQ(separate.output_kind, OutputKind::softmax);
  EXPECT_EQ(separate.net->size(), 2u);
  EXPECT_EQ(separate.output, (Shape{2, 7}));
  EXPECT_EQ(separate.head, (std::vector<std::string>{"dense"}));
  const Model nested = build(
      "layers: [flatten, sequential: [dense: {units: 1, activation: sigmoid}]]", {2, 4, 4, 3}, 2);
  EXPECT_EQ(nested.output_kind, OutputKind::sigmoid);
  EXPECT_EQ(nested.net->parameters()[0]->name(), "dense.weight");
}

TEST(ModelBuilder, ContainersNameWhatIsBelow) {
  const Model model = build(R"(
layers:
  - residual:
      name: block.0
      body:
        - conv2d: {name: conv1, filters: 6, kernel: 3, padding: 1}
        - batch_norm: {name: bn1}
      projection:
        name: downsample
        layers: [conv2d: {name: "0", filters: 6, kernel: 1}]
  - repeat:
      n: 2
      start: 3
      layers:
        - sequential:
            name: fire.{i}
            layers:
              - concat:
                  - [conv2d: {name: left, filters: 2, kernel: 1}]
                  - [conv2d: {name: right, filters: 3, kernel: 1}]
  - concat:
      - [conv2d: {filters: 2, kernel: 1, use_bias: false}]
      - [conv2d: {filters: 2, kernel: 1, use_bias: false}]
)");
  EXPECT_EQ(
      names_of(model),
      (std::vector<std::string>{
          "block.0.conv1.weight", "block.0.conv1.bias", "block.0.bn1.weight", "block.0.bn1.bias",
          "block.0.bn1.running_mean", "block.0.bn1.running_var", "block.0.downsample.0.weight",
          "block.0.downsample.0.bias", "fire.3.left.weight", "fire.3.left.bias",
          "fire.3.right.weight", "fire.3.right.bias", "fire.4.left.weight", "fire.4.left.bias",
          "fire.4.right.weight", "fire.4.right.bias", "conv2d.weight", "conv2d_1.weight"}));
  EXPECT_EQ(model.output, (Shape{2, 32, 32, 4}));
  EXPECT_EQ(MemoryPlan::of(*model.net, model.input).notes(),
            (std::vector<std::string>{"add of block.0 into batch_norm"}));
}

TEST(ModelBuilder, HeadAndDefaultsOfAPresetCanBeReplaced) {
  const Model model = build(R"(
preset: vgg16
head:
  - flatten
  - dense: {name: fc1, units: 128, activation: relu}
  - dense: {name: fc2, units: classes}
)",
                            {1, 224, 224, 3}, 10);
  int64_t backbone = 0, head = 0;
  for (const auto& parameter : model.net->parameters()) {
    (parameter->name().starts_with("features") ? backbone : head) += parameter->shape().count();
  }
  EXPECT_EQ(backbone, 14'714'688);
  EXPECT_EQ(head, 3'212'682);
  EXPECT_EQ(model.head, (std::vector<std::string>{"fc2"}));
}

struct BadModel {
  const char* text;
  const char* expected;
};

TEST(ModelBuilder, MistakesNamePlaceAndRemedy) {
  const BadModel rows[] = {
      {"layers:\n  - conv2d: {kernel: 3}\n", "m.yaml:2:5: layers[0]: 'filters' is missing"},
      {"layers:\n  - conv2d: {filterz: 3}\n",
       "m.yaml:2:14: layers[0].conv2d.filterz: unknown key; did you mean 'filters'?"},
      {"layers:\n  - conv2d: {filters: 3, kernel: 3, strids: 2}\n",
       "m.yaml:2:37: layers[0].conv2d.strids: unknown key; did you mean 'strides'?"},
      {"layers:\n  - conf2d: {filters: 3}\n",
       "m.yaml:2:5: layers[0].conf2d: unknown layer; did you mean 'conv2d'?"},
      {"layers:\n  - flaten\n",
       "m.yaml:2:5: layers[0]: unknown layer 'flaten'; did you mean 'flatten'?"},
      {"layers:\n  - conv2d: {filters: 3, kernel: 3, activation: rely}\n",
       "m.yaml:2:49: layers[0].conv2d.activation: unknown activation 'rely'; did you mean 'relu'?"},
      {"layers:\n  - conv2d: {filters: 3, kernel: 3, stride: 1, strides: 1}\n",
       "m.yaml:2:45: layers[0].conv2d.stride: the same as 'strides', which is given too; keep one"},
      {"layers:\n  - conv2d: {filters: 0, kernel: 3}\n",
       "m.yaml:2:23: layers[0].conv2d.filters: expected an integer from 1 to 1048576, got '0'."},
      {"layers:\n  - conv2d: {filters: 3, kernel: 3, groups: 2}\n",
       "m.yaml:2:5: layers[0]: conv2d: 3 input channels and 3 filters in 2 groups; both must be "
       "positive multiples of the groups"},
      {"layers:\n  - dense: {units: classes}\n",
       "m.yaml:2:20: layers[0].dense.units: the number of classes is not known here; give a "
       "number"},
      {"layers:\n  - dense: {name: a, units: 3}\n  - dense: {name: a, units: 3}\n",
       "m.yaml:3:5: layers[1]: the name 'a' is taken by a layer before; choose another"},
      {"layers:\n  - dense: {name: 'a{i}', units: 3}\n",
       "m.yaml:2:19: layers[0].dense.name: {i} counts inside a repeat only"},
      {"layers:\n  - dense: {units: 3, activation: softmax}\n  - relu\n",
       "m.yaml:2:35: layers[0].dense.activation: softmax as an activation ends a model; elsewhere "
       "use a softmax layer"},
      {"layers:\n  - residual: {body: {name: inner, layers: [relu]}}\n",
       "m.yaml:2:22: layers[0].residual.body: a body has no name of its own; name the residual"},
      {"layers:\n  - concat: []\n",
       "m.yaml:2:13: layers[0].concat: expected a list with at least one branch, got a list."},
      {"layers:\n  - multiply: [[]]\n",
       "m.yaml:2:15: layers[0].multiply: expected a list with at least two branches; `[]` is the "
       "input itself, got a list."},
      {"layers:\n  - multiply: [[], [global_avg_pool2d, dense: 2]]\n",
       "m.yaml:2:5: layers[0]: layer 'multiply' on (2,32,32,3): multiply: branch 1 gives (2,2), "
       "the "
       "ones before it (2,32,32,3); expected equal extents, or 1. To scale channels, end the "
       "branch "
       "with `dense: 3`."},
      {"layers:\n  - repeat: {layers: [relu]}\n",
       "m.yaml:2:5: layers[0]: expected `n`, or `each` with a list of words"},
      {"layers:\n  - dense: {units: channels + 1}\n",
       "m.yaml:2:20: layers[0].dense.units: expected channels, channels * N or channels / N, got "
       "'channels + 1'."},
      {"layers:\n  - dense: {units: channels * 9999}\n  - dense: {units: channels * 9999}\n",
       "m.yaml:3:20: layers[1].dense.units: expected at most 1048576 channels, not 299940003, got "
       "'channels * 9999'."},
      {"width: 20\nlayers:\n  - conv2d: {filters: 99999, kernel: 1}\n",
       "m.yaml:3:23: layers[0].conv2d.filters: expected at most 1048576 channels, not 1999984, got "
       "'99999'."},
      {"layers:\n  - residual: {body: [relu], add: never}\n",
       "m.yaml:2:35: layers[0].residual.add: expected always or same_shape, got 'never'."},
      {"layers:\n  - multi_head_attention: 2\n",
       "m.yaml:2:5: layers[0]: multi_head_attention: 2 heads must divide the 3 channels of the "
       "input"},
      {"layers:\n  - flatten\n  - layer_scale\n",
       "m.yaml:3:5: layers[1]: behind a flatten, features are in another order in weights files, "
       "where channels come first. Put layer_scale before the flatten."},
      {"layrs: []\n", "m.yaml:1:1: layrs: unknown key; did you mean 'layers'?"},
      {"resnet19\n", "m.yaml:1:1: unknown preset 'resnet19'; did you mean 'resnet18'?"},
      {"layers:\n  - flatten\ndefaults: {danse: {units: 3}}\n",
       "m.yaml:3:12: defaults.danse: unknown layer; did you mean 'dense'?"},
  };
  for (const BadModel& row : rows) EXPECT_EQ(error_of(row.text), row.expected) << row.text;
}

TEST(ModelBuilder, ValuesAndOverridesAddToThePresets) {
  const auto build = [](const std::string& section) {
    return build_model(YamlNode::parse(section, "m.yaml"), {.input = {1, 64, 64, 3}, .classes = 3});
  };
  const auto described = [&](const std::string& section) {
    std::string all;
    for (const auto& parameter : build(section).net->parameters()) {
      all += fmt::format("{} {}\n", parameter->name(), parameter->shape());
    }
    return all;
  };
  EXPECT_EQ(described("{preset: resnet50, values: {n3: 22}}"), described("resnet101"));
  EXPECT_NE(described("resnet50"), described("resnet101"));
  const auto norm = [&](const std::string& section) {
    const Model model = build(section);
    return dynamic_cast<const BatchNorm&>(*model.net->children()[1].module).options();
  };
  EXPECT_EQ(norm("mobilenet_v3_large").epsilon, 1e-3);
  EXPECT_EQ(norm("mobilenetv3_large_100").epsilon, 1e-5);
  EXPECT_EQ(norm("{preset: mobilenetv3_large_100, overrides: {batch_norm: {momentum: 1}}}").epsilon,
            1e-5);
  EXPECT_EQ(error_of("preset: resnet50\nvalues: {n5: 3}\n"),
            "m.yaml:2:10: values.n5: unknown value of resnet50; did you mean 'n1'?");
  EXPECT_EQ(error_of("layers: [flatten]\noverrides: {flaten: {}}\n"),
            "m.yaml:2:13: overrides.flaten: unknown layer; did you mean 'flatten'?");
  EXPECT_EQ(error_of("layers:\n  - relu\n  - batch_norm\noverrides: {batch_norm: {epsilom: 1}}\n"),
            "m.yaml:4:26: overrides.batch_norm.epsilom: unknown key; did you mean 'epsilon'?");
}

TEST(ModelBuilder, RepeatsReplaceWordsAndScaleWithWidthAndDepth) {
  const Model model = build_model(YamlNode::parse(R"(
width: 1.5
depth: 1.4
layers:
  - repeat:
      each: [{stage: 1, filters: 12, n: 1}, {stage: 2, filters: 24, n: 3}]
      layers:
        - repeat:
            n: "{n}"
            first: {strides: 2}
            then: {strides: 1}
            layers:
              - conv2d:
                  name: stage{stage}.{i}
                  filters: "{filters}"
                  kernel: 3
                  padding: 1
                  strides: "{strides}"
              - conv2d: {name: "deep{stage}.{i}", filters: channels, groups: channels, kernel: 1}
)",
                                                  "m.yaml"),
                                  {.input = {2, 32, 32, 3}});
  std::vector<std::string> convolutions;
  for (const Module::Child& child : model.net->children()) {
    convolutions.push_back(fmt::format("{} {}", child.name, child.module->describe()));
  }
  EXPECT_THAT(convolutions, ::testing::ElementsAre("stage1.0 24 3x3 /2", "deep1.0 24 1x1 groups 24",
                                                   "stage1.1 24 3x3", "deep1.1 24 1x1 groups 24",
                                                   "stage2.0 40 3x3 /2", "deep2.0 40 1x1 groups 40",
                                                   "stage2.1 40 3x3", "deep2.1 40 1x1 groups 40",
                                                   "stage2.2 40 3x3", "deep2.2 40 1x1 groups 40",
                                                   "stage2.3 40 3x3", "deep2.3 40 1x1 groups 40",
                                                   "stage2.4 40 3x3", "deep2.4 40 1x1 groups 40"));
}

// What nothing reads is said; what has an effect is not.
TEST(ModelBuilder, SettingsWithoutEffectAreSaid) {
  const auto unused = [](const std::string& text, const Shape& input, int64_t classes = 0) {
    return fmt::format("{}", fmt::join(build(text, input, classes).unused, "; "));
  };
  const Shape sequence{5, 2, 3}, image{2, 8, 8, 3};
  EXPECT_THAT(unused("layers: [lstm: {name: a, units: 4, dropout: 0.3}]", sequence),
              HasSubstr("a: dropout has no effect: it acts between `layers`, and there is one"));
  EXPECT_EQ(unused("layers: [lstm: {units: 4, dropout: 0.3, layers: 2}]", sequence), "");
  EXPECT_EQ(unused("layers: [gru: {units: 4}]", sequence), "");
  EXPECT_THAT(unused("layers: [flatten, dense: {units: 1, activation: softmax}]", image, 2),
              HasSubstr("softmax over one unit would always be 1: taken as a sigmoid"));
  EXPECT_THAT(unused("layers: [flatten, {dense: 1}, softmax]", image, 2),
              HasSubstr("softmax over one unit would always be 1"));
  EXPECT_THAT(unused("layers: [flatten, {dense: 1}, softmax, {dense: classes}]", image, 2),
              HasSubstr("softmax over one unit is always 1"));
  EXPECT_EQ(unused("layers: [flatten, dense: {units: 1, activation: sigmoid}]", image, 2), "");
  EXPECT_EQ(unused("layers: [flatten, dense: {units: 2, activation: softmax}]", image, 2), "");
  EXPECT_EQ(
      unused("{width: 2, depth: 2, grid: 7, drop_path: 0.1, layers: [flatten, {dense: 3}]}", image),
      "model.width has no effect: the model has no conv2d; "
      "model.depth has no effect: the model has no `repeat: {n: ...}`; "
      "model.grid has no effect: the model has no position_embedding; "
      "model.drop_path has no effect: the model has no residual with `drop_path: auto`");
  for (const char* preset : {"resnet18", "efficientnet_b0", "vit_b_16", "convnext_tiny"}) {
    EXPECT_EQ(unused(preset, {2, 224, 224, 3}, 10), "") << preset;
  }
}

TEST(ModelBuilder, ASigmoidPerClassIsNotAnsweredWithItsOwnRemedy) {
  const auto error = [](int64_t classes) {
    return error_of("layers: [flatten, dense: {units: classes, activation: sigmoid}]", {2, 8, 8, 3},
                    classes);
  };
  EXPECT_THAT(error(3), AllOf(HasSubstr("a sigmoid for each of 3 classes would be several labels"),
                              HasSubstr("use softmax."), Not(HasSubstr("units: classes"))));
  EXPECT_THAT(error(2), HasSubstr("also `units: 1` with the sigmoid"));
}

TEST(ModelBuilder, StochasticDepthGrowsLinearly) {
  const auto rates_of = [](const std::string& rate) {
    const Model model = build_model(
        YamlNode::parse("drop_path: " + rate +
                            "\nlayers:\n  - repeat:\n      n: 3\n      layers: [residual: {body: "
                            "[{dense: channels}, relu], drop_path: auto}]",
                        "m.yaml"),
        {.input = {2, 3}});
    std::vector<double> rates;
    for (const Module::Child& residual : model.net->children()) {
      for (const Module::Child& layer : residual.module->children()[0].module->children()) {
        const auto* const drop = dynamic_cast<const DropPath*>(layer.module.get());
        if (drop) rates.push_back(drop->rate());
      }
    }
    return rates;
  };
  EXPECT_THAT(rates_of("0.3"), ::testing::ElementsAre(0, 0.15, 0.3));
  EXPECT_THAT(rates_of("0"), ::testing::ElementsAre());
}

TEST(ModelBuilder, ShapesThatDoNotFitNameLayerLineAndBothShapes) {
  const std::string pool = error_of("layers:\n  - max_pool2d: 40\n");
  EXPECT_TRUE(pool.starts_with("m.yaml:2:5: layers[0]: layer 'max_pool2d' on (2,32,32,3): "))
      << pool;
  const std::string residual = error_of(
      "layers:\n  - residual:\n      body: [conv2d: {filters: 8, kernel: 3, padding: 1}]\n");
  EXPECT_EQ(residual,
            "m.yaml:2:5: layers[0]: layer 'residual' on (2,32,32,3): residual: the body gives "
            "(2,32,32,8), the input (2,32,32,3); they must be alike. Use a projection with the "
            "body's strides and filters.");
  const std::string concat = error_of(
      "layers:\n  - concat:\n    - [conv2d: {filters: 8, kernel: 3}]\n    - [conv2d: {filters: "
      "8, kernel: 1}]\n");
  EXPECT_EQ(concat,
            "m.yaml:2:5: layers[0]: layer 'concat' on (2,32,32,3): concat: branch 1 gives "
            "(2,32,32,8), the ones before it (2,30,30,8); they may differ in channels only");
  const std::string output = error_of("layers: [flatten, dense: 5]", {2, 4, 4, 1}, 10);
  EXPECT_NE(output.find("for 10 classes expected (2,10) at the end, got (2,5)"), std::string::npos)
      << output;
}

TEST(ModelBuilder, ManyLayersAreRefusedBeforeTheyCostTime) {
  const std::string text =
      "layers: [repeat: {n: 1000, layers: [repeat: {n: 1000, layers: [relu]}]}]";
  EXPECT_NE(error_of(text).find("more than 4096 layers"), std::string::npos) << error_of(text);
}

}  // namespace
}  // namespace whisker
