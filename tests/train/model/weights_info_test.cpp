// What a weights file from elsewhere is taken for, and what is said of that.
#include "layers/weights/weights.h"
#include "tests/support/error_of.h"
#include "train/config/preprocess_config.h"
#include "train/model/network.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Tensors of a network's names and shapes, without values.
SafetensorsFile file_of_model(const std::string& text, int64_t classes,
                              const std::vector<SafetensorsTensor>& others = {}) {
  const Model model =
      build_model(YamlNode::parse(text, "m"), {.input = {1, 64, 64, 3}, .classes = classes});
  std::vector<SafetensorsTensor> tensors = others;
  for (const auto& parameter : model.net->parameters()) {
    const Shape shape = file_shape(*parameter);
    tensors.push_back({.name = parameter->name(),
                       .dtype = DType::f32,
                       .shape = {shape.begin(), shape.end()},
                       .bytes = {}});
  }
  return SafetensorsFile::of("w.pth", std::move(tensors));
}

TEST(WeightsInfo, OneLogitIsOfTwoClasses) {
  const SafetensorsFile file = file_of_model("{preset: squeezenet1_1, one_logit: true}", 2);
  const WeightsInfo info = WeightsInfo::from_file(file);
  EXPECT_THAT(info.signature.classes, ElementsAre("0", "1"));
  EXPECT_EQ(info.arch, "squeezenet1_1");
  EXPECT_THAT(
      info.notes,
      ElementsAre(
          "w.pth: recognised by its tensors as squeezenet1_1 of 2 classes, whose one logit is the "
          "second's before a sigmoid, numbered from 0: --classes FILE names them, "
          "one per line; images as the preset squeezenet1_1 expects them"));
  const Model model = info.build("w.pth").model;
  EXPECT_EQ(model.output_kind, OutputKind::sigmoid);
  EXPECT_EQ(model.output, (Shape{1, 1}));
  const WeightsInfo named = WeightsInfo::from_file(file, {.classes = {"cat", "dog"}});
  EXPECT_THAT(named.signature.classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(
      message_of(ErrorKind::usage, [&] { WeightsInfo::from_file(file, {.classes = {"dog"}}); }),
      HasSubstr("--classes: expected 2 names"));
}

TEST(WeightsInfo, ANearMissIsNamedWithItsFirstDifference) {
  const SafetensorsFile file = file_of_model(
      "squeezenet1_1", 10,
      {{.name = "features.2.weight", .dtype = DType::f32, .shape = {4}, .bytes = {}}});
  EXPECT_EQ(message_of(ErrorKind::checkpoint, [&] { WeightsInfo::from_file(file); }),
            "w.pth: neither 'config' nor 'arch' in the file's metadata describes the network, and "
            "no preset has its tensors; the nearest is squeezenet1_1, with 52 of its 52 tensors: "
            "features.2.weight is in the file alone. Describe the network in a "
            "configuration, and use the file as --init of a training run.");
}

TEST(WeightsInfo, GrayImagesHaveTheAverageOfMeanAndStd) {
  Preprocess preprocess{.size = {8, 8}};
  preprocess.normalisation.mean = {0.3, 0.4, 0.8};
  preprocess.normalisation.std = {0.1, 0.2, 0.3};
  for (const char* setting : {"channels=gray", "channels=1"}) {
    const Preprocess gray = changed_preprocess(preprocess, {setting});
    EXPECT_EQ(gray.channels, 1);
    EXPECT_DOUBLE_EQ(gray.normalisation.mean[0], 0.5);
    EXPECT_DOUBLE_EQ(gray.normalisation.std[0], 0.2);
  }
  const Preprocess given = changed_preprocess(preprocess, {"channels=1", "mean=[0.1]"});
  EXPECT_DOUBLE_EQ(given.normalisation.mean[0], 0.1);
  EXPECT_EQ(gray_of({0.1, 0.1, 0.1}), 0.1);
}

}  // namespace
}  // namespace whisker::test
