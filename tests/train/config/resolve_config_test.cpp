// What a configuration takes from the weights it starts from, and what it says of that.
#include "train/resolve_config.h"

#include "layers/weights/tensor_names.h"
#include "layers/weights/weights.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_training.h"
#include "train/data/run_data.h"
#include "train/one_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Metadata = std::map<std::string, std::string>;

constexpr const char* caffe =
    R"({"resize_short": 256, "crop": 227, "interpolation": "bicubic", "channels": "RGB",
        "scale": 0.00392156862745098, "mean": [0.48, 0.46, 0.41], "std": [0.004, 0.004, 0.004]})";

class Weights {
 public:
  explicit Weights(Metadata metadata) {
    write_safetensors(path(), metadata, {{.name = "w", .shape = {1}, .bytes = [this] {
                                            return std::as_bytes(std::span(&value_, 1));
                                          }}});
  }
  explicit Weights(const std::string& preprocess) : Weights(Metadata{{"preprocess", preprocess}}) {}

  std::filesystem::path path() const { return folder_ / "w.safetensors"; }
  Config config(std::vector<std::string> overrides,
                const std::string& model = "small_resnet") const {
    overrides.push_back("init.from=" + path().string());
    return read_config_text("model: " + model + "\ndata: {train: a, val: b}\n", "t", overrides);
  }

 private:
  TemporaryFolder folder_;
  float value_ = 0;
};

struct Resolved {
  Config config;
  std::vector<std::string> notes;
};

Resolved resolved(const Config& given) {
  Resolved result;
  result.config = resolve_config(given, &result.notes);
  return result;
}

// A preset that the command names gets the head that it gets when the weights name it.
TEST(ResolveConfig, OneCommandsPresetGetsANewHead) {
  const StripeFolder data;
  const auto with = [&](const std::string& model) {
    return one_command_config(
        {.data = (data / "train").string(), .weights = "w.pth", .model = model}, {});
  };
  const Config squeezenet = with("squeezenet1_1");
  EXPECT_THAT(squeezenet.model.emit(), AllOf(HasSubstr("squeezenet1_1"), HasSubstr("classes")));
  EXPECT_THAT(squeezenet.init.skip, Contains("head.*"));
  const Config resnet = with("resnet18");
  EXPECT_EQ(resnet.model.text(), "resnet18");
  EXPECT_THAT(resnet.init.skip, IsEmpty());
}

// What the tag says of images is the configuration's, too.
TEST(ResolveConfig, OneCommandsPresetMayBearATag) {
  const StripeFolder data;
  const auto with = [&](const std::string& model, const std::string& weights = "w.pth") {
    return one_command_config(
        {.data = (data / "train").string(), .weights = weights, .model = model}, {});
  };
  const Config tagged = with("timm/resnet18.a3_in1k");
  EXPECT_EQ(tagged.model.text(), "timm/resnet18");
  EXPECT_EQ(tagged.data.image_size, 160);
  EXPECT_EQ(tagged.data.resize_short, 168);
  EXPECT_THAT(message_of(ErrorKind::usage, [&] { with("resnet18.zz_in1k"); }),
              HasSubstr("--model: the tag 'zz_in1k' of 'resnet18.zz_in1k' is not known. Leave it"));
  EXPECT_EQ(with("resnet18.zz_in1k", "").model.text(), "timm/resnet18");
}

Config on_folder(const std::filesystem::path& folder, std::vector<std::string> overrides = {}) {
  overrides.push_back("data.train=" + folder.string());
  return read_config_text("model: small_resnet\n", "t", overrides);
}

TEST(ResolveConfig, SaysWhatAnOverrideChangedBeside) {
  const std::string text =
      "model: chollet\ndata: {train: a, val: b, image_size: 96, resize_short: 108, "
      "mean: [0.4, 0.5, 0.6], std: [0.2, 0.2, 0.2]}\n";
  const auto said = [&](const std::vector<std::string>& overrides) {
    return resolved(read_config_text(text, "t", overrides)).notes;
  };
  EXPECT_THAT(said({"data.image_size=48", "data.channels=1"}),
              ElementsAre("data.resize_short=54, in proportion to data.image_size=48",
                          "data.mean=[0.5] and data.std=[0.2] for gray images: averages"));
  EXPECT_THAT(said({"data.image_size=96"}), IsEmpty());
  EXPECT_THAT(said({"data.image_size=48", "data.resize_short=54"}), IsEmpty());
}

TEST(ResolveConfig, SplitFoldersAreUsedAsTheyAre) {
  const TemporaryFolder data;
  write_stripes(data / "Training", 2, 6);
  write_stripes(data / "Testing", 2, 3, 100);
  data.write("README.md");
  const Resolved found = resolved(on_folder(data.path()));
  EXPECT_EQ(found.config.data.train, data / "Training");
  EXPECT_EQ(found.config.data.val, "");
  EXPECT_EQ(found.config.data.test, data / "Testing");
  EXPECT_EQ(found.config.data.val_split, 0.2);
  EXPECT_THAT(found.notes,
              ElementsAre(AllOf(HasSubstr("data.train is "), HasSubstr("data.test is "),
                                HasSubstr("a fifth of data.train validates (data.val=" +
                                          (data / "Testing").string()),
                                HasSubstr("not used: 'README.md'"))));
  // As printed, the configuration repeats the run without looking for splits.
  EXPECT_THAT(resolved(read_config_text(print_config(found.config), "printed")).notes, IsEmpty());
  // A fraction of one's own.
  EXPECT_EQ(resolve_config(on_folder(data.path(), {"data.val_split=0.5"})).data.val_split, 0.5);
  // In the recipe of one command, which counts the training images alone.
  const OneCommand one{.data = data.path().string(), .weights = "w.pth", .model = ""};
  EXPECT_EQ(one_command_config(one, {}).train.batch_size, (12 - 12 / 5) / 4);
  EXPECT_EQ(resolve_config(
                one_command_config({.data = data.path().string(), .weights = "", .model = ""}, {}))
                .data.test,
            data / "Testing");

  write_stripes(data / "val", 2, 2, 200);
  const Resolved three = resolved(on_folder(data.path()));
  EXPECT_EQ(three.config.data.val, data / "val");
  EXPECT_EQ(three.config.data.val_split, 0);
  EXPECT_EQ(one_command_config(one, {}).train.batch_size, 12 / 4);
  EXPECT_THAT(message_of(ErrorKind::data,
                         [&] { resolve_config(on_folder(data.path(), {"data.val_split=0.5"})); }),
              AllOf(HasSubstr("data.val_split=0"), HasSubstr("data.train=")));
  // Labels by path: everything is read as the pattern says.
  const std::string pattern = "data.label_pattern='Training/{label}/*'";
  EXPECT_EQ(resolve_config(on_folder(data.path(), {pattern})).data.train, data.path());
}

// As many archives have them: to be predicted, not to be measured on.
TEST(ResolveConfig, TestImagesWithoutLabelsAreLeftOut) {
  const TemporaryFolder data;
  write_stripes(data / "train", 2, 6);
  data.write("test/1.jpg", "\xff\xd8\xff\xe0");
  const Resolved found = resolved(on_folder(data.path()));
  EXPECT_EQ(found.config.data.test, "");
  EXPECT_THAT(found.notes,
              ElementsAre(HasSubstr("not used: " + (data / "test").string() + " without labels")));
}

// Of many images, few epochs over all layers, more on a GPU, and mild crops.
TEST(ResolveConfig, FineTuningFollowsTheNumberOfImages) {
  const FineTunePlan few = fine_tune_plan(200, false), many = fine_tune_plan(6000, false);
  EXPECT_EQ(few.all_epochs, 16);
  EXPECT_EQ(many.all_epochs, 2);
  EXPECT_EQ(fine_tune_plan(6000, true).all_epochs, 8);
  for (const bool on_gpu : {false, true}) {
    EXPECT_EQ(fine_tune_plan(1500, on_gpu).least_crop, few.least_crop);
    EXPECT_EQ(fine_tune_plan(1501, on_gpu).least_crop, many.least_crop);
  }
  EXPECT_GT(few.head_epochs, many.head_epochs);
  EXPECT_LT(few.least_crop, many.least_crop);
  EXPECT_EQ(few.last_blocks, 1);
  EXPECT_LT(many.last_blocks, 1);
  EXPECT_EQ(fine_tune_plan(1'000'000, false).all_epochs, 1);
  EXPECT_EQ(fine_tune_plan(0, true).all_epochs, 16);
  const StripeFolder data;
  const Config config =
      one_command_config({.data = (data / "train").string(), .weights = "w.pth", .model = ""}, {});
  EXPECT_EQ(config.augment.crop_scale.low, few.least_crop);
  EXPECT_EQ(config.unfreeze_at, few.head_epochs);
}

// An own number of epochs is divided: the head alone would be no fine-tuning.
TEST(ResolveConfig, FineTuningDividesGivenEpochs) {
  const StripeFolder data;
  const auto unfreeze_at = [&](const std::vector<std::string>& overrides) {
    const OneCommand one{.data = (data / "train").string(), .weights = "w.pth", .model = ""};
    return one_command_config(one, overrides).unfreeze_at;
  };
  EXPECT_EQ(unfreeze_at({}), 30);
  EXPECT_EQ(unfreeze_at({"train.epochs=46"}), 30);
  EXPECT_EQ(unfreeze_at({"train.epochs=100"}), 30);
  EXPECT_EQ(unfreeze_at({"train.epochs=20"}), 13);
  EXPECT_EQ(unfreeze_at({"train.epochs=2"}), 1);
  EXPECT_EQ(unfreeze_at({"train.epochs=1"}), 1);
  EXPECT_EQ(unfreeze_at({"train.epochs=20", "unfreeze_at=5"}), 5);
}

// Which is no reason to refuse a head alone.
TEST(ResolveConfig, FineTuningOfManyImagesLeavesTheFirstBlocksAlone) {
  const TemporaryFolder data;
  for (const char* name : {"a", "b"}) {
    for (int i = 0; i < 1000; ++i) data.write(fmt::format("{}/{}.jpg", name, i));
  }
  const auto with = [&](const std::vector<std::string>& overrides) {
    return one_command_config({.data = data.path().string(), .weights = "w.pth", .model = ""},
                              overrides);
  };
  const FineTunePlan on_cpu = fine_tune_plan(1600, false), on_gpu = fine_tune_plan(1600, true);
  EXPECT_EQ(with({}).unfreeze_last, on_cpu.last_blocks);
  EXPECT_LT(with({}).unfreeze_last, 1);
  EXPECT_EQ(with({"device=cpu"}).train.epochs, on_cpu.head_epochs + on_cpu.all_epochs);
  EXPECT_EQ(with({"device=reference"}).train.epochs, on_cpu.head_epochs + on_cpu.all_epochs);
  EXPECT_EQ(with({"device=cpu"}).data.cache, CacheKind::none);
  for (const char* device : {"device=cuda", "device=cuda:1", "device=cuda:0,cuda:1"}) {
    EXPECT_EQ(with({device}).train.epochs, on_gpu.head_epochs + on_gpu.all_epochs) << device;
    EXPECT_EQ(with({device}).data.cache, CacheKind::memory);
    EXPECT_EQ(with({device, "data.cache=none"}).data.cache, CacheKind::none);
    EXPECT_EQ(with({device, "data.gpu_decode=50"}).data.cache, CacheKind::none);
  }
  EXPECT_EQ(with({"unfreeze_at=0"}).unfreeze_last, 1);
}

// Of images whose labels are not folders, and few of them.
TEST(ResolveConfig, OneCommandListsImagesAsItsOverridesSay) {
  const StripeFolder data;
  const std::string folder = (data / "train").string();
  std::filesystem::create_directory(data / "flat");
  for (const auto& image : std::filesystem::recursive_directory_iterator(folder)) {
    if (!image.is_regular_file()) continue;
    const std::string label = image.path().parent_path().filename().string();
    std::filesystem::copy(image.path(),
                          data / "flat" / (label + "." + image.path().filename().string()));
  }
  const auto batch_size = [&](const std::string& weights, std::vector<std::string> overrides) {
    overrides.emplace_back("data.label_pattern='{label}.*'");
    return one_command_config({.data = (data / "flat").string(), .weights = weights, .model = ""},
                              overrides)
        .train.batch_size;
  };
  EXPECT_LT(batch_size("", {}), 32);
  EXPECT_EQ(batch_size("", {"train.batch_size=5"}), 5);
  EXPECT_LT(batch_size("w.pth", {}), 32);
  EXPECT_NO_THROW(batch_size("", {"train.batch_size_per_gpu=8"}));
}

TEST(ResolveConfig, PreprocessingFollowsTheWeights) {
  const Weights weights(caffe);
  const auto [config, notes] = resolved(weights.config({}));
  Preprocess expected = Preprocess::from_json(caffe, "caffe");
  EXPECT_EQ(expected.rules.version, 1);
  expected.rules = {};  // a new run, whose files are read by the newest rules
  EXPECT_EQ(preprocess_of(config.data).json(), expected.json());
  EXPECT_THAT(notes, ElementsAre("preprocessing of w.safetensors: data.image_size=227, "
                                 "data.resize_short=256, data.interpolation=bicubic, "
                                 "data.mean=[0.48, 0.46, 0.41], data.std=[0.004]"));
  // Written down, it repeats the run without the weights' help, and without a word.
  const std::string printed = print_config(config);
  EXPECT_THAT(printed, HasSubstr("image_size: 227"));
  const auto again = resolved(read_config_text(printed, "printed"));
  EXPECT_EQ(print_config(again.config), printed);
  EXPECT_THAT(again.notes, IsEmpty());
}

// As in timm.
TEST(ResolveConfig, GrayImagesHaveTheAverageOfMeanAndStd) {
  const Weights weights(caffe);
  const auto [config, notes] = resolved(weights.config({"data.channels=1"}));
  ASSERT_EQ(config.data.mean.size(), 1);
  EXPECT_DOUBLE_EQ(config.data.mean[0], (0.48 + 0.46 + 0.41) / 3);
  EXPECT_DOUBLE_EQ(config.data.std[0], 0.004);
}

TEST(ResolveConfig, WhatTheConfigurationSetsStaysWithAWarning) {
  const Weights weights(caffe);
  const auto [config, notes] =
      resolved(weights.config({"data.std=[0.229, 0.224, 0.225]", "data.mean=[0.48, 0.46, 0.41]",
                               "data.interpolation=bilinear"}));
  EXPECT_EQ(config.data.std, (std::vector<double>{0.229, 0.224, 0.225}));
  EXPECT_EQ(config.data.interpolation, Interpolation::bilinear);
  EXPECT_EQ(config.data.image_size, 227);
  EXPECT_THAT(notes, Contains("warning: data.std is [0.229, 0.224, 0.225] in the configuration, "
                              "[0.004] in w.safetensors, whose weights were trained with that. "
                              "Leave data.std out to follow the weights."));
  EXPECT_THAT(notes, Contains(HasSubstr("warning: data.interpolation is bilinear")));
  EXPECT_EQ(notes.size(), 3U) << "data.mean is the weights' own";
  // The same from the command line, and without weights nothing is followed.
  EXPECT_THAT(
      resolved(read_config_text("model: small_resnet\ndata: {train: a, val: b}\n", "t")).notes,
      IsEmpty());
}

TEST(ResolveConfig, SizesKeepTheMiddleAndNumbersTheirUnits) {
  const Weights weights(caffe);
  const auto small = resolved(weights.config({"data.image_size=160"}));
  EXPECT_EQ(small.config.data.image_size, 160);
  EXPECT_EQ(small.config.data.resize_short, 180);  // 256 / 227 of it
  EXPECT_THAT(small.notes, Contains(AllOf(HasSubstr("data.image_size is 160"), HasSubstr("227"))));
  const auto whole = resolved(weights.config({"data.image_size=160", "data.resize_short=0"}));
  EXPECT_EQ(whole.config.data.resize_short, 0);
  const auto bytes = resolved(weights.config({"data.scale=1"}));
  EXPECT_NEAR(bytes.config.data.mean[0], 0.48 * 255, 1e-9);
  EXPECT_NEAR(bytes.config.data.std[0], 0.004 * 255, 1e-9);
  EXPECT_THAT(
      message_of(ErrorKind::usage,
                 [&] {
                   resolve_config(weights.config({"data.train_image_size=1", "data.channels=1"}));
                 }),
      "no error");

  const Weights squashed(R"({"size": 64, "resize_mode": "squash", "channels": "gray",
                             "mean": [0.5], "std": [0.5]})");
  const Config gray = resolved(squashed.config({})).config;
  EXPECT_EQ(gray.data.resize_mode, ResizeMode::squash);
  EXPECT_EQ(gray.data.channels, 1);
  EXPECT_EQ(preprocess_of(gray.data).output(), (ImageSize{.height = 64, .width = 64}));

  const Weights middle(R"({"size": 72, "crop": 64, "resize_mode": "squash_crop"})");
  const DataConfig cut = resolved(middle.config({})).config.data;
  EXPECT_EQ(cut.resize_short, 72);
  EXPECT_EQ(preprocess_of(cut).size, (ImageSize{.height = 72, .width = 72}));
  EXPECT_EQ(preprocess_of(cut).output(), (ImageSize{.height = 64, .width = 64}));

  const Weights wide(R"({"size": [64, 128]})");
  EXPECT_THAT(message_of(ErrorKind::usage, [&] { resolve_config(wide.config({})); }),
              AllOf(HasSubstr("128x64"), HasSubstr("Add data.image_size=128.")));
  EXPECT_EQ(resolved(wide.config({"data.image_size=32"})).config.data.image_size, 32);
}

TEST(ResolveConfig, PreprocessingFollowsTheTagOfTheWeights) {
  const Model model =
      build_model(YamlNode::parse("regnety_004", "t"), {.input = {1, 224, 224, 3}, .classes = 10});
  const auto parameters = model.net->parameters();
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter->name());
  names = names_of(Naming::timm, names);
  const TemporaryFolder folder;
  const auto found = [&](const std::string& file, const std::string& network) {
    const std::vector<std::byte> zeros(size_t{4} << 20);
    std::vector<SafetensorsEntry> entries;
    for (size_t i = 0; i < names.size(); ++i) {
      const Shape shape = file_shape(*parameters[i]);
      entries.push_back({.name = names[i],
                         .dtype = DType::f16,
                         .shape = {shape.begin(), shape.end()},
                         .bytes = [&zeros, bytes = static_cast<size_t>(2 * shape.count())] {
                           return std::span(zeros).first(bytes);
                         }});
    }
    write_safetensors(folder / file, {}, std::move(entries));
    return resolved(read_config_text("model: " + network + "\ndata: {train: a, val: b}\n", "t",
                                     {"init.from=" + (folder / file).string()}));
  };
  for (const char* network : {"from_weights", "regnety_004"}) {
    EXPECT_EQ(found("regnety_004.pth", network).config.data.resize_short, 232);
    EXPECT_EQ(found("regnety_004.pycls_in1k.pth", network).config.data.resize_short, 256);
    const Resolved unknown = found("regnety_004.zz_in1k.pth", network);
    EXPECT_EQ(unknown.config.data.resize_short, 232);
    EXPECT_THAT(unknown.notes, Contains(HasSubstr("its tag 'zz_in1k' is not known: images as the "
                                                  "preset regnety_004 expects them")));
  }
}

TEST(ResolveConfig, PresetsStandInForWeightsThatSayNothing) {
  const Weights silent(Metadata{{"format", "pt"}});
  for (const char* model : {"resnet18", "{preset: squeezenet1_1}"}) {
    const Config config = resolved(silent.config({}, model)).config;
    EXPECT_EQ(config.data.image_size, 224) << model;
    EXPECT_EQ(config.data.resize_short, 256) << model;
    EXPECT_EQ(config.data.std, (std::vector<double>{0.229, 0.224, 0.225})) << model;
  }
  const auto unknown = resolved(silent.config({}));
  EXPECT_THAT(unknown.notes, ElementsAre(HasSubstr("does not describe its preprocessing")));
  EXPECT_THAT(resolved(silent.config({"data.mean=[0.5]"})).notes, IsEmpty());
  // evaluate and classify read such a file likewise.
  const Signature signature = Signature::from_metadata(
      {{"classes", "[\"a\", \"b\"]"}, {"arch", "vgg16"}}, "vgg16.safetensors");
  EXPECT_EQ(std::get<Preprocess>(signature.input).output(),
            (ImageSize{.height = 224, .width = 224}));
  EXPECT_THAT(message_of(ErrorKind::checkpoint,
                         [] {
                           Signature::from_metadata(
                               {{"classes", "[\"a\", \"b\"]"}, {"arch", "small_resnet"}}, "w");
                         }),
              HasSubstr("no 'preprocess'"));
  const Weights black(R"({"size": 8, "scale": 0})");
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { resolve_config(black.config({})); }),
              HasSubstr("scale"));
  const Weights damaged(R"({"sise": 3})");
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { resolve_config(damaged.config({})); }),
              HasSubstr("sise"));
}

TEST(ResolveConfig, PrintedBeforeItLeavesTheWeightsTheirSay) {
  const Weights weights(caffe);
  const std::string printed = print_config(weights.config({"data.mean=[0.5]"}));
  EXPECT_THAT(printed, testing::Not(HasSubstr("\n  image_size:")));
  EXPECT_THAT(printed, HasSubstr("mean: [0.5]"));
  const Config config = resolved(read_config_text(printed, "printed")).config;
  EXPECT_EQ(config.data.image_size, 227);
  EXPECT_EQ(config.data.mean, std::vector<double>{0.5});
}

TEST(ResolveConfig, ARunFineTunesAtTheWeightsSizeAndRepeats) {
  const StripeFolder data;
  TestRun first(data.config({"train.epochs=1", "data.image_size=12", "data.resize_short=14",
                             "data.mean=[0.4]", "data.std=[0.3]"}));
  first.train();
  const std::string from = first.folder.best().string();
  Config config = data.config({"train.epochs=1", "init.from=" + from});
  for (const std::string_view key : preprocess_keys) config.given.erase(std::string(key));
  config.data.image_size = DataConfig().image_size;
  const auto read = [](const std::filesystem::path& weights) {
    return Network::load(weights, cpu_device).preprocess().json();
  };
  const std::string before = read(from);
  std::filesystem::path path;
  {
    TestRun second(config);
    second.train();
    path = second.folder.path();
  }
  EXPECT_EQ(read(path / "best.safetensors"), before);
  const Experiment repeated(read_config((path / "config.yaml").string(), {}));
  EXPECT_EQ(repeated.network->preprocess().json(), before);
  std::filesystem::remove(from);  // a resume needs it no more
  TestRun resumed(read_config((path / "config.yaml").string(), {"train.epochs=2"}), path);
  EXPECT_EQ(resumed.train().epochs, 2);
}

}  // namespace
}  // namespace whisker::test
