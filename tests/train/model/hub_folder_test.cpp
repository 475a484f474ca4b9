// Folders as Hugging Face hands them out: transformers' classifiers as save_pretrained() writes
// them, with the logits and pixels of scripts/make_family_logits.py; timm's; and what contradicts
// itself.
#include "train/model/hub_folder.h"

#include "core/autograd/autograd.h"
#include "core/io/torch_file.h"
#include "core/ops/ops.h"
#include "data/transforms/transform_image.h"
#include "layers/weights/preset_of_file.h"
#include "layers/weights/tensor_names.h"
#include "layers/weights/weights.h"
#include "tests/layers/formula_weights.h"
#include "tests/support/error_of.h"
#include "tests/support/json_fixture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "train/model/network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const JsonValue& hub_fixture() {
  static const JsonValue file = json_fixture(WHISKER_SOURCE_DIR "/tests/layers/family_logits.json");
  return file;
}
const JsonValue& hub_row(const std::string& name) {
  return *std::ranges::find_if(hub_fixture().at("classifiers").items(), [&](const JsonValue& row) {
    return row.at("name").as_string() == name;
  });
}

void write_json(const JsonValue& value, JsonWriter& json) {
  if (value.is_null()) {
    json.null();
  } else if (value.is_string()) {
    json.value(value.as_string());
  } else if (value.is_number()) {
    const double number = value.as_double();
    number == std::floor(number) ? json.value(static_cast<int64_t>(number)) : json.value(number);
  } else if (value.is_array()) {
    json.begin_array();
    for (const JsonValue& item : value.items()) write_json(item, json);
    json.end_array();
  } else if (value.is_object()) {
    json.begin_object();
    for (const auto& [key, member] : value.members()) write_json(member, json.key(key));
    json.end_object();
  } else {
    json.value(value.as_bool());
  }
}
std::string json_text(const JsonValue& value) {
  JsonWriter json;
  write_json(value, json);
  return json.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from << " in " << text;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

/// The script's fill_small().
std::vector<float> small_values(const std::string& name, const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t extent : shape) count *= extent;
  std::vector<float> values = formula(name, static_cast<int64_t>(count));
  double scale = 1, offset = 0;
  if (name.ends_with("running_mean")) {
    scale = 0.2;
  } else if (name.ends_with("running_var")) {
    scale = 0.5;
    offset = 1;
  } else if (shape.size() == 1) {
    offset = name.ends_with("bias") ? 0 : 1;
  } else {
    scale = shape.size() == 3
                ? std::sqrt(12.0)
                : std::sqrt(24 * static_cast<double>(shape[0]) / static_cast<double>(count));
  }
  for (float& value : values) value = static_cast<float>(value * scale + offset);
  return values;
}

using ShapeOf = std::pair<std::string, std::vector<uint64_t>>;

std::vector<ShapeOf> shapes_in(const JsonValue& row) {
  std::vector<ShapeOf> shapes;
  for (const auto& [name, extents] : row.at("tensors").members()) {
    std::vector<uint64_t> shape;
    for (const JsonValue& extent : extents.items()) shape.push_back(extent.as_uint());
    shapes.emplace_back(name, shape);
  }
  return shapes;
}

void write_hub_weights(const std::filesystem::path& path, const std::vector<ShapeOf>& shapes,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}}) {
  std::vector<WeightsTensor> tensors;
  for (const auto& [name, shape] : shapes) {
    const bool counter = name.ends_with("num_batches_tracked");
    const std::vector<float> values = counter ? std::vector<float>() : small_values(name, shape);
    const int64_t count = 7;
    const auto bytes =
        counter ? std::as_bytes(std::span(&count, 1)) : std::as_bytes(std::span(values));
    tensors.push_back({.name = name,
                       .dtype = counter ? DType::i64 : DType::f32,
                       .shape = shape,
                       .bytes = {bytes.begin(), bytes.end()}});
  }
  write_safetensors(path, metadata, entries_of(tensors));
}

/// A row of the script as a folder; the JSON files can be changed before anything reads them.
struct HubFolder {
  explicit HubFolder(const std::string& name)
      : row(hub_row(name)),
        config(json_text(row.at("config"))),
        processor(json_text(row.at("processor"))) {}

  std::string write() const {
    write_hub_weights(folder / "model.safetensors", shapes_in(row));
    folder.write("config.json", config);
    if (!processor.empty()) folder.write("preprocessor_config.json", processor);
    return folder.path().string();
  }
  Network load(const GivenFacts& given = {}) const {
    return Network::load(weights_in(write()), cpu_device, given);
  }
  std::string refused() const {
    return replaced(message_of(ErrorKind::checkpoint, [&] { load(); }) + " ",
                    folder.path().string() + "/", "");
  }

  TemporaryFolder folder;
  const JsonValue& row;
  std::string config, processor;
};

/// (2, side, side, 3) of the script's (2, 3, side, side).
Tensor hub_images(int64_t side) {
  const std::vector<float> values = formula("images", 2 * 3 * side * side);
  std::vector<double> pixels(values.size());
  const auto area = static_cast<size_t>(side * side);
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t image = i / (3 * area), position = i % (3 * area) / 3, channel = i % 3;
    pixels[i] = 4.0 * static_cast<double>(values[image * 3 * area + channel * area + position]);
  }
  return from_vector(pixels, {2, side, side, 3});
}

class TransformersFolders : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, TransformersFolders,
                         testing::Values("vit", "vit_without_qkv_bias", "deit", "deit_with_teacher",
                                         "convnext", "resnet_bottleneck", "resnet_basic"),
                         [](const auto& name) { return std::string(name.param); });

TEST_P(TransformersFolders, GiveTransformersLogits) {
  const HubFolder hub(GetParam());
  const Network network = hub.load();
  EXPECT_THAT(network.classes(), ElementsAre("kind 0", "kind 1", "kind 2", "kind 3", "kind 4"));
  const std::string kind = hub.row.at("config").at("architectures").items()[0].as_string();
  const bool cuts = network.preprocess().resize_short > 0;  // of images of another shape
  ASSERT_EQ(network.notes().size(), cuts ? 2u : 1u);
  EXPECT_THAT(network.notes()[0], HasSubstr("transformers' " + kind + " of 5 classes"));
  if (cuts) {
    EXPECT_THAT(network.notes()[1], HasSubstr("it is rounded half to even, not down"));
  }
  const std::vector<double> want = numbers_of(hub.row.at("logits"));
  const NoGrad inference;
  const std::vector<double> got = network.outputs(hub_images(32)).to_vector();
  ASSERT_EQ(got.size(), want.size());
  double largest = 1;
  for (const double value : want) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * largest) << i;
}

TEST_P(TransformersFolders, PrepareImagesAsTheirProcessor) {
  const HubFolder hub(GetParam());
  const Network network = hub.load();
  const Preprocess& images = network.preprocess();
  constexpr int height = 44, width = 60;
  Image photograph;
  photograph.reshape(height, width);
  const std::vector<float> draws = formula("photograph", int64_t{3} * height * width);
  std::ranges::transform(draws, photograph.rgb.begin(),
                         [](float draw) { return static_cast<uint8_t>((draw + 0.5f) * 256); });
  const ImageSize size = images.output();
  std::vector<float> values(static_cast<size_t>(3 * size.height * size.width));
  TransformScratch scratch;
  transform_image(ImageView(photograph), preprocess_record(images, height, width),
                  {.values = values, .size = size}, scratch);
  const std::vector<double> want = numbers_of(hub.row.at("pixels"));
  const size_t step = values.size() / 40, area = values.size() / 3;
  const Normalisation& normal = images.normalisation;
  for (size_t i = 0; i < want.size(); ++i) {
    const size_t at = i * step, channel = at / area;
    const double level = normal.scale / normal.std[channel];  // Pillow 13 resizes rows first
    EXPECT_NEAR(values[at % area * 3 + channel], want[i], 2.001 * level) << i;
  }
}

TEST(HubFolder, ImportedWeightsKeepTheirNetworkAndNeedNoOtherFile) {
  const HubFolder hub("deit_with_teacher");
  const SafetensorsFile file = open_described_weights(weights_in(hub.write()));
  const WeightsInfo info = WeightsInfo::from_file(file);
  std::vector<SafetensorsEntry> entries;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, [&] { return tensor.bytes; }});
  }
  const auto path = hub.folder / "imported.safetensors";
  write_safetensors(path, info.to_metadata(), entries);
  const NoGrad inference;
  EXPECT_EQ(Network::load(path, cpu_device).outputs(hub_images(32)).to_vector(),
            hub.load().outputs(hub_images(32)).to_vector());
}

TEST(HubFolder, RefusesWhatContradictsItself) {
  const auto with = [](const char* name, const std::string& from, const std::string& to) {
    HubFolder hub(name);
    const bool in_config = hub.config.find(from) != std::string::npos;
    std::string& text = in_config ? hub.config : hub.processor;
    text = replaced(text, from, to);
    return hub.refused();
  };
  EXPECT_THAT(
      with("vit", "\"height\":32,\"width\":32", "\"height\":48,\"width\":48"),
      HasSubstr("preprocessor_config.json: size: expected images of 32 pixels, as image_size "
                "of config.json beside it, got 48"));
  EXPECT_THAT(with("vit", R"("4":"kind 4")", R"("5":"kind 4")"),
              HasSubstr("config.json: id2label: expected a name for each number from 0 to 4"));
  EXPECT_THAT(with("vit", R"(,"4":"kind 4")", ""),
              HasSubstr("id2label: expected 5 names, one for each output of the weights' head, got "
                        "4"));
  EXPECT_THAT(with("vit", R"("kind 1":1)", R"("kind 1":2)"),
              HasSubstr("label2id: 'kind 1' is class 2, but id2label says otherwise"));
  EXPECT_THAT(with("deit_with_teacher", "DeiTForImageClassificationWithTeacher",
                   "DeiTForImageClassification"),
              HasSubstr("architectures: expected ['DeiTForImageClassificationWithTeacher'], whose "
                        "tensors these are, got ['DeiTForImageClassification']"));
  EXPECT_THAT(with("vit", R"("num_hidden_layers":2)", R"("num_hidden_layers":3)"),
              HasSubstr("does not fit the model: 12 missing"));
}

TEST(HubFolder, RefusesWhatNoPresetComputes) {
  const auto with = [](const char* name, const std::string& from, const std::string& to) {
    HubFolder hub(name);
    hub.config = replaced(hub.config, from, to);
    return hub.refused();
  };
  EXPECT_THAT(with("vit", R"("gelu")", R"("gelu_new")"),
              HasSubstr("config.json: hidden_act: expected 'gelu', got 'gelu_new'"));
  EXPECT_THAT(with("resnet_bottleneck", R"("downsample_in_bottleneck":false)",
                   R"("downsample_in_bottleneck":true)"),
              HasSubstr("downsample_in_bottleneck: expected false, got true"));
  EXPECT_THAT(with("vit", R"({"architectures")",
                   R"({"problem_type":"multi_label_classification","architectures")"),
              HasSubstr("problem_type: expected 'single_label_classification'"));
  EXPECT_THAT(with("vit", R"("model_type":"vit")", R"("model_type":"swin")"),
              HasSubstr("no preset has its tensors, though its config.json says swin"));
  HubFolder nearest("vit");
  nearest.processor = replaced(nearest.processor, R"("resample":2)", R"("resample":0)");
  EXPECT_THAT(nearest.refused(),
              HasSubstr("resample: expected 2 (bilinear) or 3 (bicubic), got 0"));
}

TEST(HubFolder, SaysWhatIsAssumedWhereFilesAreSilent) {
  HubFolder hub("vit");
  hub.config = replaced(hub.config, R"("layer_norm_eps":0.001,)", "");
  hub.processor.clear();
  const Network network = hub.load();
  EXPECT_THAT(
      network.notes(),
      ElementsAre(
          HasSubstr("recognised by its config.json"),
          HasSubstr("config.json does not say all: the defaults of transformers are assumed: "
                    "layer_norm_eps=1e-12"),
          HasSubstr(
              "preprocessor_config.json is not there: the defaults of transformers are assumed: "
              "do_resize=true, size=32, resample=2, do_rescale=true, "
              "rescale_factor=0.00392156862745098, do_normalize=true, image_mean=[0.5, 0.5, "
              "0.5], image_std=[0.5, 0.5, 0.5]; --input decides otherwise")));
  EXPECT_EQ(network.preprocess().output(), (ImageSize{32, 32}));
}

TEST(HubFolder, AssumesTheDefaultsOfItsProcessor) {
  HubFolder hub("convnext");
  const auto info = [&](const char* processor) {
    hub.processor = fmt::format(R"({{"image_processor_type":"{}"}})", processor);
    return WeightsInfo::from_file(open_described_weights(weights_in(hub.write())));
  };
  const WeightsInfo convnext = info("ConvNextImageProcessor");
  EXPECT_THAT(convnext.notes, Contains(HasSubstr("do_resize=true, size=384, resample=3")));
  EXPECT_THAT(convnext.notes, Contains(HasSubstr("image_mean=[0.5, 0.5, 0.5]")));
  EXPECT_EQ(std::get<Preprocess>(convnext.signature.input).size, (ImageSize{384, 384}));
  for (const char* const processor : {"BitImageProcessor", "CLIPImageProcessor"}) {
    const WeightsInfo clip = info(processor);
    EXPECT_THAT(clip.notes, Contains(HasSubstr("image_mean=[0.48145466, 0.4578275, 0.40821073], "
                                               "image_std=[0.26862954, 0.26130258, 0.27577711]")));
    const auto& images = std::get<Preprocess>(clip.signature.input);
    EXPECT_EQ(images.resize_short, 224);
    EXPECT_EQ(images.normalisation.std[2], 0.27577711);
  }
}

TEST(HubFolder, RefusesPartsWithoutValues) {
  const HubFolder hub("vit");
  const std::string path = hub.write();
  std::vector<ShapeOf> shapes = shapes_in(hub.row);
  for (auto& [name, shape] : shapes) {
    const bool part = name.find(".attention.attention.") != name.npos && name.ends_with("weight");
    if (part) shape = {uint64_t{1} << 58, 0};
  }
  write_hub_weights(hub.folder / "model.safetensors", shapes);
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { open_described_weights(weights_in(path)); }),
              HasSubstr("qkv.weight', got none, of shape"));
}

TEST(HubFolder, OptionsDecideOtherwise) {
  const HubFolder hub("vit");
  EXPECT_THAT(message_of(ErrorKind::usage, [&] { hub.load({.model = "vit_s_16"}); }),
              HasSubstr("says which network it holds, by its config.json; leave --model out"));
  const Network network =
      hub.load({.classes = {"a", "b", "c", "d", "e"}, .preprocess = {"mean=[0.1]"}});
  EXPECT_THAT(network.classes(), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_EQ(network.preprocess().normalisation.mean[1], 0.1);
}

// --- timm

/// A preset's tensors under timm's names.
struct TimmFolder {
  std::string architecture = "mobilenetv3_small_100", others = {}, cfg = {};

  std::string write(const std::map<std::string, std::string>& metadata = {{"format", "pt"}}) const {
    const Model model = build_model(YamlNode::parse("mobilenetv3_small_100", "test"),
                                    {.input = {1, 64, 64, 3}, .classes = 3});
    std::vector<std::string> names;
    for (const auto& parameter : model.net->parameters()) names.push_back(parameter->name());
    names = names_of(Naming::timm, names);
    std::vector<ShapeOf> shapes;
    for (const auto& parameter : model.net->parameters()) {
      const Shape shape = file_shape(*parameter);
      shapes.emplace_back(names[shapes.size()], std::vector<uint64_t>(shape.begin(), shape.end()));
    }
    write_hub_weights(folder / "model.safetensors", shapes, metadata);
    folder.write("config.json",
                 fmt::format(R"({{"architecture":"{}","num_classes":3{},"pretrained_cfg":)"
                             R"({{"tag":"lamb_in1k","classifier":"classifier"{}}}}})",
                             architecture, others, cfg));
    return weights_in(folder.path().string());
  }
  WeightsInfo info(const GivenFacts& given = {}) const {
    return WeightsInfo::from_file(open_described_weights(write()), given);
  }
  std::string refused() const {
    return message_of(ErrorKind::checkpoint, [&] { info(); });
  }

  TemporaryFolder folder = {};
};

TEST(TimmFolder, SaysNetworkClassesAndImages) {
  TimmFolder timm{.others = R"(,"global_pool":"avg","label_names":["ant","bee","wasp"],)"
                            R"("model_args":{"num_classes":3,"in_chans":3,"drop_path_rate":0.1})",
                  .cfg = R"(,"input_size":[3,160,160],"crop_pct":0.95,"interpolation":"bicubic",)"
                         R"("crop_mode":"center","mean":[0.5,0.4,0.3],"std":[0.2,0.2,0.2])"};
  const WeightsInfo info = timm.info();
  EXPECT_EQ(info.arch, "mobilenetv3_small_100");
  EXPECT_THAT(info.signature.classes, ElementsAre("ant", "bee", "wasp"));
  const auto& images = std::get<Preprocess>(info.signature.input);
  EXPECT_EQ(images.resize_short, 168);
  EXPECT_EQ(images.output(), (ImageSize{160, 160}));
  EXPECT_EQ(images.interpolation, Interpolation::bicubic);
  EXPECT_EQ(images.normalisation.mean[2], 0.3);
  EXPECT_THAT(info.notes,
              ElementsAre(HasSubstr("drop_path_rate=0.1 of model_args are not read"),
                          HasSubstr("model.safetensors: recognised by its config.json as "
                                    "mobilenetv3_small_100 of 3 classes")));
  timm.cfg = R"(,"crop_mode":"squash","crop_pct":0.875)";
  const auto squashed = std::get<Preprocess>(timm.info().signature.input);
  EXPECT_EQ(squashed.resize_mode, ResizeMode::squash_crop);
  EXPECT_EQ(squashed.size, (ImageSize{256, 256}));
  EXPECT_EQ(squashed.output(), (ImageSize{224, 224}));
}

TEST(TimmFolder, SilentFilesLeaveTheTagOfTheWeightsToDecide) {
  const WeightsInfo info = TimmFolder{}.info();
  EXPECT_EQ(std::get<Preprocess>(info.signature.input).resize_short, 256);
  EXPECT_THAT(info.notes, ElementsAre(HasSubstr("of 3 classes, numbered from 0: --classes")));
}

TEST(TimmFolder, RefusesWhatContradictsItselfOrNoPresetComputes) {
  EXPECT_THAT(TimmFolder{.others = R"(,"label_names":["ant","bee"])"}.refused(),
              HasSubstr("label_names: expected 3 names"));
  TimmFolder other{.others = R"(,"global_pool":"max")"};
  EXPECT_THAT(other.refused(), HasSubstr("global_pool: expected 'avg', got 'max'"));
  other.others = R"(,"model_args":{"act_layer":"relu"})";
  EXPECT_THAT(other.refused(),
              HasSubstr("act_layer='relu' makes another network than its architecture's"));
  other.others = R"(,"num_features":1024)";
  other.cfg = R"(,"interpolation":"lanczos")";
  EXPECT_THAT(other.refused(), HasSubstr("interpolation: expected bicubic or bilinear"));

  const TimmFolder unknown{.architecture = "mobilenetv3_small_100_gn"};
  EXPECT_THAT(
      unknown.refused(),
      HasSubstr("its config.json says 'timm/mobilenetv3_small_100_gn.lamb_in1k', which is no "
                "preset: it has the tensors of mobilenetv3_small_100"));
  EXPECT_EQ(unknown.info({.model = "mobilenetv3_small_100"}).arch, "mobilenetv3_small_100");

  const TimmFolder resnet{.architecture = "resnet18"};
  EXPECT_THAT(resnet.refused(), HasSubstr("its config.json says timm/resnet18, but its tensors are "
                                          "those of another network"));
  const TimmFolder named;
  EXPECT_THAT(
      message_of(
          ErrorKind::checkpoint,
          [&] {
            WeightsInfo::from_file(open_described_weights(named.write({{"arch", "resnet18"}})));
          }),
      HasSubstr("config.json: architecture: expected resnet18, as the metadata of "));
  TimmFolder twice{.cfg = R"(,"mean":[0.5,0.5,0.5],"std":[0.5,0.5,0.5])"};
  twice.folder.write("preprocessor_config.json",
                     R"({"feature_extractor_type":"ViTFeatureExtractor","size":224,"resample":3})");
  EXPECT_THAT(twice.refused(), HasSubstr("preprocessor_config.json prepares images otherwise than "
                                         "config.json beside it"));
}

TEST(HubFolder, OtherFoldersSayWhatIsMissing) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  const auto refused = [&] { return message_of(ErrorKind::checkpoint, [&] { weights_in(path); }); };
  EXPECT_THAT(refused(), HasSubstr("expected a weights file, or a folder with model.safetensors or "
                                   "pytorch_model.bin, got a folder."));
  folder.write("best.safetensors");
  EXPECT_THAT(refused(), HasSubstr("expected a weights file, got a folder. Give " + path +
                                   "/best.safetensors."));
  folder.write("model.safetensors.index.json");
  EXPECT_THAT(refused(), HasSubstr("its weights are several files (model.safetensors.index.json)"));
  folder.write("pytorch_model.bin");
  EXPECT_EQ(weights_in(path), path + "/pytorch_model.bin");
  EXPECT_EQ(weights_in(path + "/best.safetensors"), path + "/best.safetensors");
}

// --- real weights

TEST(RealWeights, GivePyTorchsLogits) {
  for (const JsonValue& row : hub_fixture().at("files").items()) {
    const auto path = test_data_dir() / "weights" / row.at("file").as_string();
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "without " << path;
    const Network network = Network::load(path, cpu_device);
    EXPECT_EQ(network.classes()[1], "goldfish");
    const std::vector<double> want = numbers_of(row.at("logits"));
    const NoGrad inference;
    const std::vector<double> got = network.outputs(hub_images(224)).to_vector();
    ASSERT_EQ(got.size(), 2000u);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i * 25], want[i], 1e-4) << path << i;
  }
}

TEST(RealWeights, OfEfficientNetLite0AreToldByTheirNames) {
  const auto path = test_data_dir() / "weights/efficientnet-lite0-57934424.pth";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "without " << path;
  const auto preset = preset_of_file(open_weights(path), {.file = false});
  ASSERT_TRUE(preset);
  EXPECT_EQ(preset->name, "efficientnet-lite0");
  EXPECT_THAT(preset->others, IsEmpty());
  const WeightsInfo info = WeightsInfo::from_file(open_weights(path));
  EXPECT_THAT(info.notes, ElementsAre(HasSubstr("by its file name as efficientnet-lite0 of 1000 "
                                                "classes, named as ImageNet's")));
  const Preprocess& images = std::get<Preprocess>(info.signature.input);
  EXPECT_NEAR(images.normalisation.factor(0) * 255 + images.normalisation.offset(0), 1.0, 1e-6);
  EXPECT_NEAR(images.normalisation.factor(0) * 127 + images.normalisation.offset(0), 0.0, 1e-6);
  EXPECT_EQ(images.resize_short, 256);
  EXPECT_EQ(images.interpolation, Interpolation::bicubic);
}

}  // namespace
}  // namespace whisker::test
