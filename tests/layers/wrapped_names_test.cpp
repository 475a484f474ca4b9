// Weights as other trainers' modules hold them: behind a prefix, beside tensors of losses and
// averages, for RGB where images are gray, of one logit, and near misses.
#include "layers/weights/wrapped_names.h"

#include "layers/weights/preset_of_file.h"
#include "layers/weights/tensor_names.h"
#include "layers/weights/weights.h"
#include "tests/support/error_of.h"

#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Model small_conv_model(int64_t channels = 1) {
  return build_model(YamlNode::parse("[conv2d: {name: conv1, filters: 2, kernel: 1}, "
                                     "flatten, dense: {name: fc, units: classes}]",
                                     "m.yaml"),
                     {.input = {1, 2, 2, channels}, .classes = 3});
}

// Tensors of f32 with the values 1, 2, 3, ...
class CountingFile {
 public:
  void add(const std::string& name, std::vector<uint64_t> shape, DType dtype = DType::f32) {
    uint64_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 1.0f);
    const auto bytes = std::as_bytes(std::span<const float>(values));
    copies_.emplace_back(bytes.begin(), bytes.end());
    tensors_.push_back({.name = name, .dtype = dtype, .shape = std::move(shape), .bytes = {}});
  }
  SafetensorsFile file() const {
    std::vector<SafetensorsTensor> tensors = tensors_;
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = copies_[i];
    return SafetensorsFile::of("w.pth", std::move(tensors));
  }

 private:
  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::vector<std::byte>> copies_;
};

void add_small_conv_model(CountingFile& file, const std::string& prefix, uint64_t channels = 1) {
  file.add(prefix + "conv1.weight", {2, channels, 1, 1});
  file.add(prefix + "conv1.bias", {2});
  file.add(prefix + "fc.weight", {3, 8});
  file.add(prefix + "fc.bias", {3});
}

// Tensors of the shapes of a preset, without values.
CountingFile preset_file(const std::string& text, int64_t classes) {
  const Model model =
      build_model(YamlNode::parse(text, "p"), {.input = {1, 64, 64, 3}, .classes = classes});
  CountingFile file;
  for (const auto& parameter : model.net->parameters()) {
    const Shape shape = file_shape(*parameter);
    file.add(parameter->name(), {shape.begin(), shape.end()});
  }
  return file;
}

LoadReport loaded(const CountingFile& file, const Model& model,
                  std::vector<std::vector<float>>* values = nullptr) {
  ParameterArena arena(model.net->parameters(), cpu_device, 1);
  const LoadReport report = load_weights(file.file(), model, arena);
  for (const auto& parameter : arena.parameters()) {
    if (values) values->push_back(arena.read(*parameter));
  }
  return report;
}

TEST(WrappedNames, APrefixIsTakenOffAndWhatStandsBesideIsTold) {
  const Model model = small_conv_model();
  for (const char* prefix : {"model.", "net.", "model.module.backbone.", "_orig_mod.model.",
                             "model._orig_mod.", "model._orig_mod.module.backbone._orig_mod."}) {
    CountingFile file;
    add_small_conv_model(file, prefix);
    const LoadReport report = loaded(file, model);
    EXPECT_EQ(report.loaded, 4) << prefix;
    EXPECT_THAT(report.notes("w.pth"), IsEmpty()) << prefix;
    EXPECT_EQ(classes_that_fit(file.file(), model), 3) << prefix;
    file.add("criterion.weight", {3});
    file.add("n_averaged", {}, DType::f32);
    EXPECT_THAT(loaded(file, model).notes("w.pth"),
                ElementsAre("w.pth: 2 tensors beside the network are left out: "
                            "'criterion.weight', 'n_averaged'; --weights-key PREFIX reads others"))
        << prefix;
    EXPECT_EQ(classes_that_fit(file.file(), model), 3) << prefix;
  }
  CountingFile averaged;  // of torch.optim.swa_utils.AveragedModel
  add_small_conv_model(averaged, "module.");
  averaged.add("n_averaged", {});
  const LoadReport report = loaded(averaged, model);
  EXPECT_EQ(report.loaded, 4);
  EXPECT_EQ(report.batches_tracked, 0);
  EXPECT_THAT(report.beside, ElementsAre("n_averaged"));
  EXPECT_EQ(classes_that_fit(averaged.file(), model), 3);
}

TEST(WrappedNames, OfTwoNetworksThatFitNeitherIsTakenAndBothAreNamed) {
  const Model model = small_conv_model();
  CountingFile file;
  add_small_conv_model(file, "student.");
  add_small_conv_model(file, "teacher.");
  const std::string refusal =
      "w.pth: its weights may be 'student' (4 tensors) or 'teacher' (4 tensors): --weights-key KEY "
      "(init.key in a configuration) says which.";
  EXPECT_EQ(test::message_of(ErrorKind::checkpoint, [&] { loaded(file, model); }), refusal);
  EXPECT_EQ(test::message_of(ErrorKind::checkpoint, [&] { classes_that_fit(file.file(), model); }),
            refusal);
}

// DataParallel's and torch.compile's words may stand within a name; others' look alike.
TEST(WrappedNames, BareNamesLackTheWordsOfTorch) {
  EXPECT_EQ(bare_tensor_name("module._orig_mod.module.a.weight"), "a.weight");
  EXPECT_EQ(bare_tensor_name("a._orig_mod.b._orig_mod.weight"), "a.b.weight");
  EXPECT_EQ(bare_tensor_name("my_orig_mod.module.weight"), "my_orig_mod.module.weight");
}

TEST(WrappedNames, NamesThatAreTheModelsOwnKeepTheirPrefix) {
  const std::vector<std::string> names = {"model.a.weight", "model.b.weight"};
  const auto own = [&](std::string_view name) { return name.starts_with("model."); };
  EXPECT_EQ(unwrapped_names(names, own).names, names);
  EXPECT_EQ(unwrapped_names(names, own).prefix, "");
  const auto bare = [&](std::string_view name) { return name == "a.weight" || name == "b.weight"; };
  EXPECT_THAT(unwrapped_names(names, bare).names, ElementsAre("a.weight", "b.weight"));
  EXPECT_EQ(unwrapped_names(names, bare).prefix, "model.");
}

// As timm's load_pretrained with in_chans=1.
TEST(Weights, ChannelsAreSummedForGrayImages) {
  const Model model = small_conv_model();
  CountingFile file;
  add_small_conv_model(file, "", 3);
  std::vector<std::vector<float>> values;
  const LoadReport report = loaded(file, model, &values);
  EXPECT_THAT(values[0], ElementsAre(1 + 2 + 3, 4 + 5 + 6));
  EXPECT_THAT(report.notes("w.pth"),
              ElementsAre(HasSubstr("w.pth: conv1.weight is for RGB images and is summed over its "
                                    "three channels, as the images are gray")));
  CountingFile other;  // two channels are not RGB, and RGB images need three
  add_small_conv_model(other, "", 2);
  EXPECT_THAT(test::message_of(ErrorKind::checkpoint, [&] { loaded(other, model); }),
              HasSubstr("misshaped   conv1.weight  file (2,2,1,1), model (2,1,1,1)"));
  CountingFile gray;
  add_small_conv_model(gray, "", 1);
  EXPECT_THAT(test::message_of(ErrorKind::checkpoint, [&] { loaded(gray, small_conv_model(3)); }),
              HasSubstr("misshaped   conv1.weight"));
}

TEST(NearestPreset, NamesItAndTheFirstDifference) {
  CountingFile head = preset_file(
      "{preset: resnet18, head: [global_avg_pool2d, dense: {name: fc.1, "
      "units: classes}]}",
      10);
  EXPECT_FALSE(preset_of_file(head.file()));
  EXPECT_EQ(nearest_preset(head.file()),
            "the nearest is resnet18, with 100 of its 102 tensors: fc.weight is missing");
  CountingFile deeper = preset_file("resnet18", 10);
  deeper.add("layer4.2.conv1.weight", {512, 512, 3, 3});
  EXPECT_EQ(nearest_preset(deeper.file()),
            "the nearest is resnet18, with 102 of its 102 tensors: layer4.2.conv1.weight is in the "
            "file alone");
  CountingFile none;
  none.add("a", {1});
  EXPECT_EQ(nearest_preset(none.file()), "");
}

TEST(NearestPreset, ManyOutputsAndOneAreOfThePreset) {
  for (const int64_t classes : {1, 2, 1001}) {
    const auto preset = preset_of_file(
        preset_file(classes == 1 ? "{preset: resnet18, one_logit: true}" : "resnet18",
                    classes == 1 ? 2 : classes)
            .file());
    ASSERT_TRUE(preset) << classes;
    EXPECT_EQ(preset->name, "resnet18");
    EXPECT_EQ(preset->classes, classes);
  }
}

TEST(ModelBuilder, OneLogitIsTheSecondOfTwoClasses) {
  const YamlNode section = YamlNode::parse("{preset: squeezenet1_1, one_logit: true}", "m.yaml");
  const Model model = build_model(section, {.input = {2, 64, 64, 3}, .classes = 2});
  EXPECT_EQ(model.output, (Shape{2, 1}));
  EXPECT_EQ(model.output_kind, OutputKind::sigmoid);
  EXPECT_THAT(test::message_of(ErrorKind::usage,
                               [&] {
                                 build_model(section, {.input = {2, 64, 64, 3}, .classes = 3});
                               }),
              HasSubstr("one_logit: expected two classes, got 3"));
}

}  // namespace
}  // namespace whisker
