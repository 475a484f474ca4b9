// Weights files: axis orders, names, and loading that is strict and all or nothing.
#include "layers/weights/weights.h"

#include "layers/builder/presets.h"
#include "layers/layers.h"
#include "layers/weights/preset_of_file.h"
#include "layers/weights/tensor_names.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

constexpr const char* network_text = R"(
layers:
  - conv2d: {name: conv1, filters: 3, kernel: [2, 3]}
  - batch_norm: {name: bn1}
  - flatten
  - dropout: 0.5
  - dense: {name: fc1, units: 4}
  - dense: {name: fc2, units: classes}
)";

struct Network {
  Model model;
  ParameterArena arena;

  explicit Network(int64_t classes = 5, uint64_t seed = 1, const std::string& text = network_text)
      : model(build_model(YamlNode::parse(text, "m.yaml"),
                          {.input = {1, 4, 4, 2}, .classes = classes})),
        arena(model.net->parameters(), cpu_device, seed) {}

  const Parameter& operator[](const std::string& name) const {
    for (const auto& parameter : arena.parameters()) {
      if (parameter->name() == name) return *parameter;
    }
    throw std::runtime_error("no " + name);
  }
  std::vector<std::vector<float>> values() const {
    std::vector<std::vector<float>> all;
    for (const auto& parameter : arena.parameters()) all.push_back(arena.read(*parameter));
    return all;
  }
};

// Written and read through a temporary file.
class File {
 public:
  explicit File(const std::vector<WeightsTensor>& tensors) {
    write_safetensors(folder_ / "w.safetensors", {}, entries_of(tensors));
  }
  SafetensorsFile open() const { return SafetensorsFile::open(folder_ / "w.safetensors"); }

 private:
  TemporaryFolder folder_;
};

std::vector<WeightsTensor> renamed(std::vector<WeightsTensor> tensors, const std::string& from,
                                   const std::string& to) {
  for (WeightsTensor& tensor : tensors) {
    if (tensor.name.starts_with(from)) tensor.name = to + tensor.name.substr(from.size());
  }
  return tensors;
}

void drop(std::vector<WeightsTensor>& tensors, const std::string& name) {
  std::erase_if(tensors, [&](const WeightsTensor& tensor) { return tensor.name == name; });
}

std::string error_of(const std::vector<WeightsTensor>& tensors, Network& target,
                     const LoadOptions& options = {}) {
  const auto before = target.values();
  const File file(tensors);
  const std::string text = test::message_of(ErrorKind::checkpoint, [&] {
    load_weights(file.open(), target.model, target.arena, options);
  });
  if (text == "no error") return text;
  EXPECT_EQ(target.values(), before);
  const size_t does_not_fit = text.find(": does not fit");
  return does_not_fit == std::string::npos ? text : text.substr(does_not_fit + 2);
}

TEST(Weights, ConvolutionsAreOihwInFiles) {
  const Network net;
  const Parameter& weight = net["conv1.weight"];
  EXPECT_EQ(weight.shape(), (Shape{3, 2, 3, 2}));
  EXPECT_EQ(file_shape(weight), (Shape{3, 2, 2, 3}));
  std::vector<float> memory(36);
  std::iota(memory.begin(), memory.end(), 0.0f);
  const std::vector<float> file = to_file_order(weight, memory);
  for (int64_t o = 0; o < 3; ++o)
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t w = 0; w < 3; ++w) {
          EXPECT_EQ(file[static_cast<size_t>(((o * 2 + i) * 2 + h) * 3 + w)],
                    memory[static_cast<size_t>(((o * 2 + h) * 3 + w) * 2 + i)]);
        }
  EXPECT_EQ(from_file_order(weight, file), memory);
}

TEST(Weights, ADenseLayerBehindAFlattenSeesChannelsFirstInFiles) {
  const Network net;
  const Parameter& weight = net["fc1.weight"];  // inputs: 3 x 2 places, 3 channels
  EXPECT_EQ(weight.flattened_channels, 3);
  EXPECT_EQ(file_shape(weight), (Shape{4, 18}));
  std::vector<float> memory(72);
  std::iota(memory.begin(), memory.end(), 0.0f);
  const std::vector<float> file = to_file_order(weight, memory);
  for (size_t unit = 0; unit < 4; ++unit)
    for (size_t place = 0; place < 6; ++place)
      for (size_t channel = 0; channel < 3; ++channel) {
        EXPECT_EQ(file[unit * 18 + channel * 6 + place], memory[unit * 18 + place * 3 + channel]);
      }
  EXPECT_EQ(from_file_order(weight, file), memory);
  EXPECT_EQ(to_file_order(net["fc2.weight"], std::vector<float>(20, 1.0f)),
            std::vector<float>(20, 1.0f));
}

TEST(Weights, AFileGivesBackEveryValueAndTheBatchCount) {
  const Network source(5, 1);
  Network target(5, 2);
  EXPECT_NE(source.values(), target.values());
  const std::vector<WeightsTensor> tensors = state_dict(source.arena, 321);
  EXPECT_EQ(tensors.size(), 11u);
  const File file(tensors);
  const SafetensorsFile opened = file.open();
  EXPECT_EQ(opened.find("bn1.num_batches_tracked")->dtype, DType::i64);
  EXPECT_TRUE(opened.find("bn1.num_batches_tracked")->shape.empty());
  const LoadReport report = load_weights(opened, target.model, target.arena);
  EXPECT_EQ(source.values(), target.values());
  EXPECT_EQ(report.loaded, 10);
  EXPECT_EQ(report.batches_tracked, 321);
}

TEST(Weights, AnArenaWithoutASeedWaitsForThem) {
  const Network source(5, 1);
  Model model =
      build_model(YamlNode::parse(network_text, "m.yaml"), {.input = {1, 4, 4, 2}, .classes = 5});
  ParameterArena arena(model.net->parameters(), cpu_device, std::nullopt);
  for (const auto& parameter : arena.parameters()) {
    EXPECT_EQ(arena.read(*parameter), std::vector<float>(parameter->shape().count(), 0.0f));
  }
  const File file(state_dict(source.arena, 0));
  load_weights(file.open(), model, arena);
  for (size_t i = 0; i < arena.parameters().size(); ++i) {
    EXPECT_EQ(arena.read(*arena.parameters()[i]), source.values()[i]);
  }
}

TEST(Weights, PrefixesOfWrappersAreStripped) {
  const Network source(5, 1);
  Network target(5, 2);
  const File file(renamed(state_dict(source.arena, 0), "", "module._orig_mod."));
  load_weights(file.open(), target.model, target.arena);
  EXPECT_EQ(source.values(), target.values());
}

TEST(Weights, OneTableListsEveryDifferenceAndNothingIsLoaded) {
  std::vector<WeightsTensor> tensors =
      renamed(state_dict(Network(7, 1).arena, 0), "conv1.", "conv_1.");
  drop(tensors, "fc1.bias");
  Network target(5, 2);
  EXPECT_EQ(error_of(tensors, target),
            "does not fit the model: 3 missing, 2 unexpected, 2 misshaped; nothing was loaded. "
            "Check model; init.skip takes patterns of names to leave out.\n"
            "  missing     conv1.weight   model (3,2,2,3)  nearest: conv_1.weight\n"
            "  missing     conv1.bias     model (3)  nearest: conv_1.bias\n"
            "  missing     fc1.bias       model (4)\n"
            "  misshaped   fc2.weight     file (7,4), model (5,4)\n"
            "  misshaped   fc2.bias       file (7), model (5)\n"
            "  unexpected  conv_1.bias    file (3)  nearest: conv1.bias\n"
            "  unexpected  conv_1.weight  file (3,2,2,3)  nearest: conv1.weight");
}

// A name that is like another by its end alone, or whose tensor is of another shape, is none.
TEST(Weights, OnlyWhatMayBeMeantIsNearest) {
  const auto nearest = [](std::vector<WeightsTensor> tensors) {
    Network target(5, 2);
    const std::string error = error_of(std::move(tensors), target);
    return std::count(error.begin(), error.end(), ':') - 1;  // one stands behind "the model"
  };
  const std::vector<WeightsTensor> whole = state_dict(Network(5, 1).arena, 0);
  EXPECT_EQ(nearest(renamed(whole, "conv1.", "conv_1.")), 4);
  EXPECT_EQ(nearest(renamed(whole, "conv1.", "stem.")), 0) << "only the ends are alike";
  std::vector<WeightsTensor> other = renamed(whole, "fc1.", "fc_1.");
  for (WeightsTensor& tensor : other) {
    if (tensor.name == "fc_1.weight") std::swap(tensor.shape[0], tensor.shape[1]);
  }
  EXPECT_EQ(nearest(other), 2) << "of the bias alone";
}

TEST(Weights, AHeadForOtherClassesStaysNew) {
  const Network source(7, 1);
  Network target(5, 2);
  const std::vector<float> head = target.arena.read(target["fc2.weight"]);
  const File file(state_dict(source.arena, 0));
  const LoadReport report =
      load_weights(file.open(), target.model, target.arena, {.allow_new_head = true});
  EXPECT_EQ(report.new_head, (std::vector<std::string>{"fc2.weight", "fc2.bias"}));
  EXPECT_EQ(report.loaded, 8);
  EXPECT_EQ(target.arena.read(target["fc2.weight"]), head);
  EXPECT_EQ(target.arena.read(target["fc1.weight"]), source.arena.read(source["fc1.weight"]));
}

TEST(Weights, AHeadForOtherClassesNamesItsRemedy) {
  Network target(5, 2);
  EXPECT_EQ(
      error_of(state_dict(Network(7, 1).arena, 0), target),
      "does not fit the model: 0 missing, 0 unexpected, 2 misshaped; nothing was loaded. They "
      "are of another number of classes: init.new_head=true trains a new last layer.\n"
      "  misshaped   fc2.weight  file (7,4), model (5,4)\n"
      "  misshaped   fc2.bias    file (7), model (5)");
}

TEST(Weights, AnotherDifferenceForbidsANewHead) {
  std::vector<WeightsTensor> tensors = state_dict(Network(7, 1).arena, 0);
  drop(tensors, "bn1.bias");
  Network target(5, 2);
  EXPECT_EQ(error_of(tensors, target, {.allow_new_head = true}).substr(0, 55),
            "does not fit the model: 1 missing, 0 unexpected, 2 miss");
}

TEST(Weights, SkippedNamesStayAsTheyAre) {
  const Network source(7, 1);
  std::vector<WeightsTensor> tensors = renamed(state_dict(source.arena, 0), "fc2.", "old_head.");
  Network target(5, 2);
  const std::vector<float> head = target.arena.read(target["fc2.bias"]);
  const File file(tensors);
  const LoadReport report =
      load_weights(file.open(), target.model, target.arena, {.skip = {"fc2", "old_head.*"}});
  EXPECT_EQ(report.skipped, (std::vector<std::string>{"fc2.weight", "fc2.bias"}));
  EXPECT_EQ(target.arena.read(target["fc2.bias"]), head);
  EXPECT_EQ(target.arena.read(target["bn1.weight"]), source.arena.read(source["bn1.weight"]));
  EXPECT_THAT(test::message_of(ErrorKind::usage,
                               [&] {
                                 load_weights(file.open(), target.model, target.arena,
                                              {.skip = {"fc2", "old_head.*", "fc3"}});
                               }),
              testing::HasSubstr("init.skip: 'fc3' matches no parameter"));
}

TEST(Weights, HalfPrecisionFilesAreConverted) {
  const Network source(5, 1);
  Network target(5, 2);
  std::vector<WeightsTensor> tensors = state_dict(source.arena, 0);
  for (WeightsTensor& tensor : tensors) {
    if (tensor.name != "conv1.bias") continue;
    const std::array<uint16_t, 3> halves = {bf16_t(0.5f).bits, bf16_t(-2.0f).bits,
                                            bf16_t(1.25f).bits};
    tensor.dtype = DType::bf16;
    std::memcpy(tensor.bytes.data(), halves.data(), sizeof(halves));
    tensor.bytes.resize(sizeof(halves));
  }
  const File file(tensors);
  load_weights(file.open(), target.model, target.arena);
  EXPECT_EQ(target.arena.read(target["conv1.bias"]), (std::vector<float>{0.5f, -2.0f, 1.25f}));
}

TEST(Weights, TimmsVggHeadIsKnown) {
  const std::string text = R"(
layers:
  - conv2d: {name: features.0, filters: 3, kernel: 3, padding: 1}
  - flatten
  - dense: {name: classifier.0, units: 4}
  - dense: {name: classifier.3, units: 4}
  - dense: {name: classifier.6, units: classes}
)";
  const Network source(5, 1, text);
  Network target(5, 2, text);
  std::vector<WeightsTensor> tensors = state_dict(source.arena, 0);
  tensors = renamed(tensors, "classifier.0.", "pre_logits.fc1.");
  tensors = renamed(tensors, "classifier.3.", "pre_logits.fc2.");
  tensors = renamed(tensors, "classifier.6.", "head.fc.");
  for (WeightsTensor& tensor : tensors) {
    if (tensor.name == "pre_logits.fc1.weight") tensor.shape = {4, 3, 4, 4};
    if (tensor.name == "pre_logits.fc2.weight") tensor.shape = {4, 4, 1, 1};
  }
  const File file(tensors);
  load_weights(file.open(), target.model, target.arena);
  EXPECT_EQ(source.values(), target.values());
}

TEST(Weights, ATensorWithNanOrInfIsRefusedByNameUnlessItIsLeftOut) {
  Network target(5, 2);
  const auto with = [](auto value, DType dtype) {
    std::vector<WeightsTensor> tensors = state_dict(Network().arena, 1);
    const auto at = std::ranges::find(tensors, "fc1.bias", &WeightsTensor::name);
    std::array<decltype(value), 4> values{};
    values[2] = value;
    const auto bytes = std::as_bytes(std::span(values));
    at->dtype = dtype;
    at->bytes.assign(bytes.begin(), bytes.end());
    return tensors;
  };
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const auto& tensors :
       {with(nan, DType::f32), with(-inf, DType::f32), with(f16_t(inf), DType::f16),
        with(bf16_t(nan), DType::bf16), with(double{inf}, DType::f64), with(1e39, DType::f64)}) {
    EXPECT_THAT(error_of(tensors, target),
                testing::HasSubstr("tensor 'fc1.bias': expected values that are finite in f32"));
    Network other(5, 3);
    load_weights(File(tensors).open(), other.model, other.arena, {.skip = {"fc1.bias"}});
  }
  EXPECT_EQ(error_of(with(3e38F, DType::f32), target), "no error");
}

TEST(Weights, TwoTensorsOfOneNameAfterStrippingAreRefused) {
  std::vector<WeightsTensor> tensors = state_dict(Network().arena, 0);
  WeightsTensor twin = tensors.front();
  twin.name = "module." + twin.name;
  tensors.push_back(twin);
  Network target;
  EXPECT_NE(error_of(tensors, target).find("two tensors stand for 'conv1.weight'"),
            std::string::npos);
}

// A file with the preset's tensors under other names, of which only names and shapes count.
SafetensorsFile file_of_preset(const std::string& preset, int64_t classes, Naming naming,
                               const std::string& prefix = "") {
  const Model model =
      build_model(YamlNode::parse(preset, "test"), {.input = {1, 224, 224, 3}, .classes = classes});
  std::vector<std::string> names;
  std::vector<SafetensorsTensor> tensors;
  for (const auto& parameter : model.net->parameters()) {
    const Shape shape = file_shape(*parameter);
    names.push_back(parameter->name());
    tensors.push_back({.name = "", .shape = {shape.begin(), shape.end()}, .bytes = {}});
  }
  names = names_of(naming, names);
  for (size_t i = 0; i < names.size(); ++i) tensors[i].name = prefix + names[i];
  tensors.push_back(
      {.name = prefix + "bn1.num_batches_tracked", .dtype = DType::i64, .shape = {}, .bytes = {}});
  return SafetensorsFile::of("w", std::move(tensors));
}

// Under timm's names they are the networks of families_test.cpp.
TEST(Weights, TellThePresetThatTheyAreOf) {
  for (const Preset& preset : presets()) {
    const std::string name(preset.name);
    if (preset.text.find("\ndata:") == std::string_view::npos) continue;
    const Naming naming =
        preset_library(preset_sections(preset)) == "timm" ? Naming::timm : Naming::torchvision;
    const auto found = preset_of_file(file_of_preset(name, 37, naming, "module."));
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->name, name);
    EXPECT_EQ(found->classes, 37);
  }
  EXPECT_FALSE(preset_of_file(SafetensorsFile::of("w", {})));
}

// All names of these networks were compared with those of timm 1.0 and torchvision 0.30.
TEST(Weights, OfTimmAndTorchvisionAreRenamedBothWays) {
  struct Case {
    std::vector<std::string> timm, torchvision;
  };
  const Case cases[] = {
      {{"features.0.weight", "pre_logits.fc1.bias", "head.fc.weight"},
       {"features.0.weight", "classifier.0.bias", "classifier.6.weight"}},
      {{"conv_stem.weight", "blocks.0.0.bn2.running_mean", "blocks.2.2.bn1.bias",
        "blocks.5.2.conv_pwl.weight", "bn2.num_batches_tracked"},
       {"features.0.0.weight", "features.1.conv.2.running_mean", "features.6.conv.0.1.bias",
        "features.16.conv.2.weight", "features.18.1.num_batches_tracked"}},
      {{"bn1.bias", "blocks.0.0.bn2.weight", "blocks.3.2.conv_pwl.weight", "blocks.6.0.bn1.bias",
        "bn2.bias", "classifier.bias"},
       {"_bn0.bias", "_blocks.0._bn2.weight", "_blocks.7._project_conv.weight",
        "_blocks.15._bn0.bias", "_bn1.bias", "_fc.bias"}},  // EfficientNet-PyTorch's
      {{"blocks.3.3.bn3.weight", "blocks.5.2.se.conv_expand.bias", "blocks.6.0.conv.weight",
        "conv_head.bias"},
       {"features.10.block.2.1.weight", "features.15.block.2.fc2.bias", "features.16.0.weight",
        "classifier.0.bias"}},
      {{"blocks.0.0.se.conv_reduce.weight", "blocks.1.0.conv_pwl.weight", "blocks.5.0.bn1.weight"},
       {"features.1.block.1.fc1.weight", "features.2.block.2.0.weight", "features.12.1.weight"}},
      {{"blocks.0.1.conv.weight", "blocks.1.0.conv_exp.weight", "conv_head.weight"},
       {"features.1.1.block.0.0.weight", "features.2.0.block.0.0.weight", "features.7.0.weight"}},
      {{"blocks.0.0.se.conv_reduce.weight", "blocks.6.0.bn3.bias", "conv_head.weight"},
       {"features.1.0.block.1.fc1.weight", "features.7.0.block.3.1.bias", "features.8.0.weight"}},
      {{"stem.bn.weight", "s1.b1.downsample.conv.weight", "s4.b6.se.fc2.bias", "head.fc.weight"},
       {"stem.1.weight", "trunk_output.block1.block1-0.proj.0.weight",
        "trunk_output.block4.block4-5.f.se.fc2.bias", "fc.weight"}},
      {{"stem.1.bias", "stages.2.downsample.1.weight", "stages.3.blocks.2.gamma",
        "stages.0.blocks.0.mlp.fc2.bias", "head.norm.weight"},
       {"features.0.1.bias", "features.4.1.weight", "features.7.2.layer_scale",
        "features.1.0.block.5.bias", "classifier.0.weight"}},
      {{"cls_token", "pos_embed", "blocks.11.attn.qkv.weight", "blocks.0.mlp.fc2.bias",
        "norm.bias"},
       {"class_token", "encoder.pos_embedding",
        "encoder.layers.encoder_layer_11.self_attention.in_proj_weight",
        "encoder.layers.encoder_layer_0.mlp.3.bias", "encoder.ln.bias"}},
  };
  for (const auto& [timm, torchvision] : cases) {
    EXPECT_EQ(names_of(Naming::timm, torchvision), timm);
    EXPECT_EQ(names_of(Naming::torchvision, timm), torchvision);
  }
  EXPECT_EQ(bare_tensor_name("module._orig_mod.fc.weight"), "fc.weight");
}

}  // namespace
}  // namespace whisker
