// What is said of weights from elsewhere: which network they are, what else, and what follows of
// it.
#include "layers/weights/preset_name.h"
#include "layers/weights/tensor_names.h"
#include "layers/weights/weights.h"
#include "tests/support/error_of.h"
#include "tests/support/json_fixture.h"
#include "tests/support/temporary_folder.h"
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
  // The name of torchvision's network, the tensors of timm's, which has another epsilon.
  const auto misnamed = [](const GivenFacts& given) {
    return WeightsInfo::from_file(
        named_file("mobilenet_v3_small", Naming::timm, "mobilenet_v3_small-047dcff4.pth"), given);
  };
  EXPECT_EQ(misnamed({}).arch, "mobilenetv3_small_100");
  EXPECT_THAT(
      misnamed({}).notes,
      ElementsAre(HasSubstr("by its tensors as mobilenetv3_small_100"),
                  "mobilenet_v3_small-047dcff4.pth: its file name says mobilenet_v3_small, whose "
                  "tensors have other names, and is not followed: --model NAME (of a "
                  "configuration: model=NAME) says which network it is",
                  HasSubstr("its tensors are those of tf_mobilenetv3_small_100 too")));
  EXPECT_EQ(misnamed({.model = "mobilenet_v3_small"}).arch, "mobilenet_v3_small");
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { info("resnet34-b627a593.pth"); }),
              HasSubstr("its file name says resnet34, but its tensors are those of another"));
}

TEST(RecognisedNetwork, SaysThatAConfigBesideItIsNotRead) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "resnet18-f37072fd.pth").string();
  const auto notes = [&] {
    return WeightsInfo::from_file(named_file("resnet18", Naming::torchvision, path)).notes;
  };
  EXPECT_EQ(notes().size(), 1U);
  const std::string beside = folder.write("config.json", "{}").string();
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("by its file name as resnet18"),
                                   beside + " beside it is not read, as it is beside "
                                            "model.safetensors or pytorch_model.bin: --model, "
                                            "--classes and --input say what else is known"));
}

TEST(RecognisedNetwork, FollowsTheTagOfItsWeights) {
  const auto info = [](const char* file, const GivenFacts& given = {}) {
    return WeightsInfo::from_file(named_file("resnet18", Naming::torchvision, file), given);
  };
  const auto short_side = [](const WeightsInfo& weights) {
    return std::get<Preprocess>(weights.signature.input).resize_short;
  };
  const WeightsInfo small = info("resnet18.a3_in1k.pth");
  EXPECT_EQ(small.arch, "timm/resnet18");
  EXPECT_EQ(short_side(small), 168);
  EXPECT_THAT(small.notes, ElementsAre(HasSubstr(
                               "; images as its weights 'a3_in1k' expect them: image_size=160, "
                               "resize_short=168")));
  EXPECT_EQ(short_side(info("resnet18.a3_in1k.pth", {.model = "timm/resnet18"})), 168);
  EXPECT_EQ(short_side(info("w.pth", {.model = "timm/resnet18.a3_in1k"})), 168);
  EXPECT_EQ(short_side(info("resnet18.a3_in1k.pth", {.preprocess = {"image_size=320"}})), 336);
  const WeightsInfo unknown = info("resnet18.zz_in1k.pth");
  EXPECT_EQ(short_side(unknown), 235);
  EXPECT_THAT(unknown.notes,
              ElementsAre(HasSubstr("images as the preset timm/resnet18 expects them"),
                          "resnet18.zz_in1k.pth: its tag 'zz_in1k' is not known: images as the "
                          "preset timm/resnet18 expects them; data.mean, data.std, --input decide "
                          "otherwise"));
}

// As scripts/make_weights_tags.py read it from timm and torchvision.
TEST(RecognisedNetwork, WeightsOfEveryTagPrepareImagesAsTheirLibraryDoes) {
  const JsonValue file = json_fixture(WHISKER_SOURCE_DIR "/tests/layers/weights_tags.json");
  for (const JsonValue& group : file.items()) {
    const JsonValue& want = group.at("data");
    for (const JsonValue& weights : group.at("weights").items()) {
      SCOPED_TRACE(weights.as_string());
      const auto found = find_preset_name(weights.as_string());
      ASSERT_TRUE(found && found->tag.known);
      ASSERT_EQ(found->presets.size(), 1u);
      const auto own = preset_preprocess(found->presets[0], found->tag.data);
      ASSERT_TRUE(own);
      EXPECT_EQ(own->output().height, want.at("image_size").as_int());
      const int short_side = own->resize_short > 0 ? own->resize_short : own->size.height;
      EXPECT_EQ(short_side, want.at("resize_short").as_int());
      EXPECT_EQ(own->interpolation == Interpolation::bicubic,
                want.at("interpolation").as_string() == "bicubic");
      EXPECT_EQ(own->resize_mode == ResizeMode::squash,
                want.at("resize_mode").as_string() == "squash");
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_EQ(own->normalisation.mean[c], want.at("mean").items()[c].as_double());
        EXPECT_EQ(own->normalisation.std[c], want.at("std").items()[c].as_double());
      }
    }
  }
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
