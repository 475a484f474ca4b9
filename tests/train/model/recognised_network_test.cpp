// What is said of weights from elsewhere: which network they are, what else, and what follows of
// it.
#include "layers/weights/tensor_names.h"
#include "layers/weights/weights.h"
#include "tests/support/error_of.h"
#include "tests/support/json_fixture.h"
#include "train/config/preprocess_config.h"
#include "train/model/network.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Of which names and shapes count.
SafetensorsFile named_file(const std::string& preset, Naming naming, const std::string& file) {
  const Model model =
      build_model(YamlNode::parse(preset, "test"), {.input = {1, 224, 224, 3}, .classes = 10});
  std::vector<std::string> names;
  for (const auto& parameter : model.net->parameters()) names.push_back(parameter->name());
  names = names_of(naming, names);
  std::vector<SafetensorsTensor> tensors;
  for (const std::string& name : names) {
    const Shape shape = file_shape(*model.net->parameters()[tensors.size()]);
    tensors.push_back({.name = name, .shape = {shape.begin(), shape.end()}, .bytes = {}});
  }
  return SafetensorsFile::of(file, std::move(tensors));
}

double mean_of(const WeightsInfo& info) {
  return std::get<Preprocess>(info.signature.input).normalisation.mean[0];
}

TEST(RecognisedNetwork, SaysWhatItAssumedAndWhatElseItMayBe) {
  const SafetensorsFile file = named_file("mobilenetv3_small_100", Naming::timm, "w.pth");
  const WeightsInfo assumed = WeightsInfo::from_file(file);
  EXPECT_EQ(assumed.arch, "mobilenetv3_small_100");
  EXPECT_EQ(mean_of(assumed), 0.485);
  EXPECT_THAT(
      assumed.notes,
      ElementsAre(
          "w.pth: recognised by its tensors as mobilenetv3_small_100 of 10 classes, numbered from "
          "0: --classes FILE names them, one per line; images as the preset mobilenetv3_small_100 "
          "expects them",
          "w.pth: mobilenetv3_small_100 is assumed; its tensors are those of "
          "tf_mobilenetv3_small_100 too, which compute or prepare images otherwise: --model NAME "
          "(of a configuration: model=NAME) says which it is"));
  const WeightsInfo given = WeightsInfo::from_file(file, {.model = "tf_mobilenetv3_small_100"});
  EXPECT_EQ(given.arch, "tf_mobilenetv3_small_100");
  EXPECT_EQ(mean_of(given), 0.5);
  EXPECT_THAT(given.notes, ElementsAre(HasSubstr("recognised by --model as tf_mobilenetv3_small")));
}

TEST(RecognisedNetwork, FollowsTheNameOfItsFile) {
  const auto info = [](const char* file) {
    return WeightsInfo::from_file(named_file("resnet18", Naming::torchvision, file));
  };
  const WeightsInfo torchvision = info("resnet18-f37072fd.pth");
  EXPECT_EQ(torchvision.arch, "resnet18");
  EXPECT_THAT(torchvision.notes, ElementsAre(HasSubstr("recognised by its file name as resnet18")));
  const WeightsInfo timm = info("resnet18.a1_in1k.safetensors");
  EXPECT_EQ(timm.arch, "timm/resnet18");
  EXPECT_EQ(std::get<Preprocess>(timm.signature.input).resize_short, 235);
  EXPECT_THAT(timm.notes, ElementsAre(HasSubstr("by its file name as timm/resnet18")));
  // Both libraries call it so.
  EXPECT_THAT(info("resnet18.pth").notes,
              ElementsAre(HasSubstr("by its file name as resnet18"),
                          HasSubstr("its tensors are those of timm/resnet18 too")));
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { info("resnet34-b627a593.pth"); }),
              HasSubstr("its file name says resnet34, but its tensors are those of another"));
}

// Size, short side, filter, mean and std, as scripts/make_family_logits.py read them.
TEST(RecognisedNetwork, PresetsPrepareImagesAsTheirLibraryDoes) {
  const JsonValue file = json_fixture(WHISKER_SOURCE_DIR "/tests/layers/family_logits.json");
  for (const JsonValue& row : file.at("networks").items()) {
    const std::string name = row.at("name").as_string();
    SCOPED_TRACE(name);
    const std::optional<Preprocess> found = preset_preprocess(name);
    ASSERT_TRUE(found);
    const std::span<const JsonValue> want = row.at("preprocess").items();
    const ImageSize size = found->output();
    EXPECT_EQ(size.height, want[0].as_int());
    EXPECT_EQ(size.width, want[0].as_int());
    const int short_side = found->resize_short > 0 ? found->resize_short : found->size.height;
    EXPECT_EQ(short_side, want[1].as_int());
    EXPECT_EQ(found->interpolation == Interpolation::bicubic, want[2].as_string() == "bicubic");
    EXPECT_EQ(found->resize_mode, ResizeMode::crop);
    EXPECT_EQ(found->normalisation.mean[0], want[3].as_double());
    EXPECT_EQ(found->normalisation.std[0], want[4].as_double());
  }
}

}  // namespace
}  // namespace whisker::test
