// Networks of torchvision and timm that share tensors with others of another family: each preset
// has the tensors, the preprocessing and the logits of its own network, and its file is told apart
// from the others', or it is said that nothing does. Numbers from scripts/make_family_logits.py, in
// f64.
#include "core/cpu/cpu_backend.h"
#include "layers/builder/presets.h"
#include "layers/weights/preset_name.h"
#include "layers/weights/preset_of_file.h"
#include "layers/weights/tensor_names.h"
#include "tests/layers/formula_weights.h"
#include "tests/support/error_of.h"
#include "tests/support/json_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr int64_t family_classes = 5, small_side = 64, image_count = 3;
constexpr int64_t many_parameters = 13'000'000;

const std::vector<JsonValue>& family_rows() {
  static const JsonValue file = json_fixture(WHISKER_SOURCE_DIR "/tests/layers/family_logits.json");
  static const std::vector<JsonValue> rows(file.at("networks").items().begin(),
                                           file.at("networks").items().end());
  return rows;
}

/// For images of side x side; 0: of the preset's own size, with its own grid of positions.
Model family_network(const std::string& name, int64_t side) {
  std::string section = name;
  if (side == 0) {
    side = merged_key(preset_sections(*find_preset(name)), "data").find("image_size")->as_int();
  } else {
    const bool patches_of_32 = name.find("32") != name.npos;
    section = fmt::format(
        "{{preset: {}, grid: {}, drop_path: 0, overrides: {{batch_norm: {{momentum: 1}}}}}}", name,
        side / (patches_of_32 ? 32 : 16));
  }
  return build_model(YamlNode::parse(section, "test"),
                     {.input = {image_count, side, side, 3}, .classes = family_classes});
}

/// The names that the library of `row` gives the tensors.
std::vector<std::string> library_names(const JsonValue& row, const Model& model) {
  std::vector<std::string> names;
  for (const auto& parameter : model.net->parameters()) names.push_back(parameter->name());
  const bool timm = row.at("library").as_string() == "timm";
  return names_of(timm ? Naming::timm : Naming::torchvision, names);
}

/// The tensors of the library's network, of which names and shapes count.
std::vector<SafetensorsTensor> library_tensors(const JsonValue& row) {
  const Model model = family_network(row.at("name").as_string(), 0);
  const std::vector<std::string> names = library_names(row, model);
  std::vector<SafetensorsTensor> tensors;
  for (const std::string& name : names) {
    const Shape shape = file_shape(*model.net->parameters()[tensors.size()]);
    tensors.push_back({.name = name, .shape = {shape.begin(), shape.end()}, .bytes = {}});
  }
  return tensors;
}

SafetensorsFile library_file(const JsonValue& row, const std::string& file_name) {
  return SafetensorsFile::of(file_name, library_tensors(row));
}

/// The script's filled().
void fill_family(const Model& model, const std::vector<std::string>& names, double gain,
                 ParameterArena& arena) {
  const std::set<std::string> known(names.begin(), names.end());
  for (size_t i = 0; i < names.size(); ++i) {
    const Parameter& parameter = *model.net->parameters()[i];
    const std::string& name = names[i];
    const int64_t count = parameter.shape().count(), rows = parameter.shape()[0];
    std::vector<float> values = formula(name, count);
    double scale = 1, offset = 0;
    if (name.ends_with("running_mean") || name.ends_with("running_var")) {
      scale = 0;
    } else if (name.find("token") != name.npos || name.find("pos_embed") != name.npos) {
      scale = std::sqrt(12.0);
    } else if (count == rows) {
      offset = name.ends_with("bias") ? 0 : 1;
      if (name.ends_with("bn3.weight") || name.ends_with("conv3.bn.weight")) scale = offset = 0.25;
    } else {
      const std::string bias = name.substr(0, name.rfind('.')) + ".bias";
      const bool small = name.ends_with(".weight") && !known.contains(bias);
      scale = std::sqrt(12 * static_cast<double>(rows) / static_cast<double>(count)) *
              (small ? 0.2 : gain);
    }
    for (float& value : values) value = static_cast<float>(value * scale + offset);
    arena.write(parameter, from_file_order(parameter, values));
  }
}

/// (N, side, side, 3) of the script's (N, 3, side, side).
Tensor family_images() {
  const std::vector<float> values = formula("images", image_count * 3 * small_side * small_side);
  std::vector<double> pixels(values.size());
  const auto area = static_cast<size_t>(small_side * small_side);
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t image = i / (3 * area), position = i % (3 * area) / 3, channel = i % 3;
    pixels[i] = 4.0 * static_cast<double>(values[image * 3 * area + channel * area + position]);
  }
  return from_vector(pixels, {image_count, small_side, small_side, 3});
}

std::string name_of_family(const testing::TestParamInfo<size_t>& row) {
  std::string name = family_rows()[row.param].at("name").as_string();
  std::ranges::replace(name, '/', '_');
  return name;
}

class Families : public testing::TestWithParam<size_t> {
 protected:
  const JsonValue& row() const { return family_rows()[GetParam()]; }
  std::string name() const { return row().at("name").as_string(); }
};

INSTANTIATE_TEST_SUITE_P(, Families, testing::Range(size_t{0}, family_rows().size()),
                         name_of_family);

TEST_P(Families, HaveTheNamesAndSizesOfTheirTensors) {
  const Model model = family_network(name(), 0);
  const std::vector<std::string> names = library_names(row(), model);
  std::vector<std::string> lines;
  int64_t trained = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const Parameter& parameter = *model.net->parameters()[i];
    lines.push_back(fmt::format("{} {}", names[i], parameter.shape().count()));
    if (!parameter.is_buffer()) trained += parameter.shape().count();
  }
  std::ranges::sort(lines);
  EXPECT_EQ(trained, row().at("parameters").as_int());
  EXPECT_EQ(fmt::format("{:016x}", stream_of(fmt::format("{}", fmt::join(lines, "\n")))),
            row().at("names").as_string());
}

TEST_P(Families, GiveTheLogitsOfTheirLibrary) {
  if (row().at("parameters").as_int() > many_parameters && !std::getenv("WHISKER_LONG")) {
    GTEST_SKIP() << "takes seconds: WHISKER_LONG=1";
  }
  const std::vector<double> want = numbers_of(row().at("logits"));
  const Model model = family_network(name(), small_side);
  ParameterArena arena(model.net->parameters(), cpu_device, {});
  fill_family(model, library_names(row(), model), row().at("gain").as_double(), arena);
  set_cpu_options({.threads = 1, .winograd = false, .deterministic = true});
  const NoGrad inference;
  const Tensor images = family_images();
  const bool has_statistics = std::ranges::any_of(
      model.net->parameters(), [](const auto& parameter) { return parameter->is_buffer(); });
  if (has_statistics) {
    model.net->forward(images, {.training = true});
    arena.commit_buffers();
  }
  const std::vector<double> got = model.net->forward(images).to_vector();
  set_cpu_options({});
  ASSERT_GE(got.size(), want.size());
  double largest = 1;
  for (const double value : want) largest = std::max(largest, std::fabs(value));
  // Of efficientnet_b4 PyTorch's own logits in f32 are up to 2.1e-4 from those in f64.
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 3e-4 * largest) << i;
}

std::vector<std::string> all_of(const PresetOfFile& found) {
  std::vector<std::string> names = found.others;
  names.push_back(found.name);
  return names;
}

TEST_P(Families, AreRecognisedOrSaidToBeOneOfSeveral) {
  const std::vector<SafetensorsTensor> tensors = library_tensors(row());
  const SafetensorsFile file = SafetensorsFile::of("model.safetensors", tensors);
  // Without a name, presets of the same kind are built one after the other, the deep ones slowly.
  if (row().at("parameters").as_int() <= many_parameters || std::getenv("WHISKER_LONG")) {
    const auto by_tensors = preset_of_file(file);
    ASSERT_TRUE(by_tensors);
    EXPECT_EQ(by_tensors->classes, family_classes);
    EXPECT_EQ(by_tensors->by, "its tensors");
    EXPECT_THAT(all_of(*by_tensors), testing::Contains(name()));
  }

  const std::string plain = name().substr(name().find('/') + 1);
  const auto by_file = preset_of_file(SafetensorsFile::of("weights/" + plain + ".pth", tensors));
  ASSERT_TRUE(by_file);
  EXPECT_EQ(by_file->by, "its file name");
  EXPECT_THAT(all_of(*by_file), testing::Contains(name()));
  for (const std::string& other : by_file->others) {  // torchvision and timm both call it so
    EXPECT_EQ(other.substr(other.find('/') + 1), plain);
  }

  const auto by_option = preset_of_file(file, {.model = name()});
  EXPECT_EQ(by_option->name, name());
  EXPECT_THAT(by_option->others, testing::IsEmpty());
  const auto by_metadata = preset_of_file(file, {.metadata = name()});
  EXPECT_EQ(by_metadata->by, "its metadata");
  EXPECT_THAT(all_of(*by_metadata), testing::Contains(name()));
}

TEST(FamilyTable, HasLookAlikesThatComputeSomethingElse) {
  std::map<std::string, std::vector<std::string>> by_names;  // presets of equal tensors
  std::map<std::string, std::vector<double>> logits;
  std::set<std::string> networks;
  for (const JsonValue& row : family_rows()) {
    const std::string name = row.at("name").as_string();
    by_names[row.at("names").as_string()].push_back(name);
    logits[name] = numbers_of(row.at("logits"));
    networks.insert(name.substr(name.find('/') + 1));
  }
  size_t alike = 0;
  for (const auto& [hash, names] : by_names) alike += names.size() > 1 ? names.size() : 0;
  EXPECT_GE(networks.size(), 45u);
  EXPECT_GE(alike, 15u);
  const auto differ = [&](const std::string& a, const std::string& b) {
    double largest = 0;
    for (size_t i = 0; i < logits[a].size(); ++i) {
      largest = std::max(largest, std::fabs(logits[a][i] - logits[b][i]));
    }
    return largest;
  };
  EXPECT_GT(differ("tf_efficientnet_b0", "timm/efficientnet_b0"), 0.01);
  EXPECT_GT(differ("tf_mobilenetv3_large_100", "mobilenetv3_large_100"), 0.01);
  EXPECT_GT(differ("tf_efficientnetv2_s", "efficientnetv2_s"), 0.01);
}

TEST(PresetNames, AreFoundInWhatFilesAreCalled) {
  using testing::ElementsAre;
  const auto presets_in = [](const char* file) {
    const auto found = preset_name_of_file(file);
    return found ? found->presets : std::vector<std::string>();
  };
  EXPECT_THAT(presets_in("a/resnet18-f37072fd.pth"), ElementsAre("resnet18", "timm/resnet18"));
  EXPECT_TRUE(preset_name_of_file("a/resnet18-f37072fd.pth")->download);
  EXPECT_FALSE(preset_name_of_file("a/resnet18.pth")->download);
  EXPECT_THAT(presets_in("tf_efficientnet_b0_ns-c0e6a31c.pth"), ElementsAre("tf_efficientnet_b0"));
  EXPECT_THAT(presets_in("timm__deit_small_patch16_224.fb_in1k.safetensors"),
              ElementsAre("deit_small_patch16_224"));
  EXPECT_THAT(presets_in("timm__resnet50.pth"), ElementsAre("timm/resnet50"));
  EXPECT_THAT(presets_in("resnet50.a1_in1k.safetensors"), ElementsAre("timm/resnet50"));
  EXPECT_THAT(presets_in("resnet50_a1_0-14fe96d1.pth"), ElementsAre("timm/resnet50"));
  EXPECT_THAT(presets_in("resnet50_cats.pth"), ElementsAre("resnet50", "timm/resnet50"));
  EXPECT_THAT(presets_in("efficientnet_b0_rwightman-7f5810bc.pth"), ElementsAre("efficientnet_b0"));
  EXPECT_THAT(presets_in("resnet50.tv_in1k.bin"), ElementsAre("timm/resnet50"));  // timm's copy
  EXPECT_THAT(presets_in("resnet34-43635321.pth"), ElementsAre("timm/resnet34"));
  EXPECT_THAT(presets_in("resnet50-11ad3fa6.pth"), ElementsAre("resnet50"));
  EXPECT_THAT(presets_in("resnet50.best.pth"), ElementsAre("resnet50", "timm/resnet50"));
  EXPECT_THAT(presets_in("tv_resnet50.pth.tar"), ElementsAre("resnet50"));
  EXPECT_THAT(presets_in("ResNet34.pt"), ElementsAre("resnet34", "timm/resnet34"));
  EXPECT_THAT(presets_in("RESNET50.A1_IN1K.PTH.TAR"), ElementsAre("timm/resnet50"));
  EXPECT_THAT(presets_in("vit_small_patch16_384.pth"), ElementsAre("vit_s_16_384"));
  EXPECT_THAT(presets_in("vit_b_16_swag-9ac1b537.pth"), ElementsAre("vit_b_16_384"));
  EXPECT_THAT(presets_in("resnet50d-0123abcd.pth"), ElementsAre());
  EXPECT_THAT(presets_in("resnet180.pth"), ElementsAre());
  EXPECT_THAT(presets_in("best.safetensors"), ElementsAre());
  EXPECT_THAT(presets_in("timm.pth"), ElementsAre());
  // timm's names of before tags.
  EXPECT_THAT(presets_in("ssl_resnet18-d92f0530.pth"), ElementsAre("timm/resnet18"));
  EXPECT_THAT(presets_in("mobilenetv3_large_100_miil.pth"), ElementsAre("mobilenetv3_large_100"));
  for (const char* file : {"resnetblur50_bt-84f4748f.pth", "resnetaa50.a1h_in1k.safetensors",
                           "efficientnet_blur_b0.pth"}) {
    EXPECT_TRUE(preset_name_of_file(file)->unsupported) << file;
  }
}

TEST(WeightsTags, AreATagOrAHashBehindTheNetworksName) {
  const auto tag_in = [](const char* file) { return preset_name_of_file(file)->tag; };
  using testing::ElementsAre;
  for (const char* file : {"resnet18.a3_in1k.safetensors", "timm/ResNet18.a3_in1k-40c531c8.pth",
                           "resnet18_a3_0-40c531c8.pth"}) {
    EXPECT_EQ(tag_in(file).name, "a3_in1k") << file;
    EXPECT_TRUE(tag_in(file).known) << file;
    EXPECT_THAT(tag_in(file).settings(), ElementsAre("image_size=160", "resize_short=168")) << file;
  }
  EXPECT_THAT(tag_in("tf_efficientnet_b0_ap-f262efe1.pth").settings(),
              ElementsAre("mean=[0.5, 0.5, 0.5]", "std=[0.5, 0.5, 0.5]"));
  EXPECT_THAT(tag_in("resnet50-11ad3fa6.pth").settings(), ElementsAre("resize_short=232"));
  EXPECT_EQ(tag_in("ssl_resnet18-d92f0530.pth").name, "fb_ssl_yfcc100m_ft_in1k");
  EXPECT_EQ(tag_in("mobilenetv3_large_100_miil.pth").name, "miil_in21k_ft_in1k");
  EXPECT_EQ(tag_in("tf_efficientnet_b0_ap.pth").name, "ap_in1k");
  const std::pair<const char*, const char*> unread[] = {
      {"tf_efficientnet_b0_ap_cats.pth", "_cats"}, {"resnet18.a3_in1k_v2.pth", "_v2"},
      {"resnet50-11ad3fa6_epoch3.pth", "_epoch3"}, {"resnet18_gn.pth", "_gn"},
      {"mobilenet_v2-7ebf99e0 (1).pth", ""},  // a second download
      {"resnet18.a3_in1k-40c531c8.pth", ""},       {"resnet18-f37072fd.pth", ""}};
  for (const auto& [file, rest] : unread) EXPECT_EQ(tag_in(file).unread, rest) << file;
  EXPECT_TRUE(tag_in("resnet50.a1_in1k.pth").known);  // as the preset says
  EXPECT_TRUE(tag_in("resnet50.a1_in1k.pth").data.is_null());
  for (const char* file : {"resnet50.zz_in1k.pth", "resnet50.best.pth"}) {
    EXPECT_NE(tag_in(file).name, "") << file;
    EXPECT_FALSE(tag_in(file).known) << file;
  }
  EXPECT_THAT(tag_in("ResNet50-11AD3FA6.PTH").settings(), ElementsAre("resize_short=232"));
  for (const char* file :
       {"resnet50.pth", "resnet50.PTH", "resnet50.Pt", "resnet50_best.pth", "resnet50-0676ba61.pth",
        "resnet50-epoch=3-loss=0.1.ckpt", "resnet50-cats-0676ba61.pth"}) {
    EXPECT_EQ(tag_in(file).name, "") << file;
  }
}

const JsonValue& family_row(const char* name) {
  return *std::ranges::find_if(
      family_rows(), [&](const JsonValue& row) { return row.at("name").as_string() == name; });
}

TEST(PresetOfFile, TakesTheStrongestName) {
  const JsonValue& deit = family_row("deit_tiny_patch16_224");
  const auto found = [&](const char* file, const NetworkNames& names) {
    return preset_of_file(library_file(deit, file), names)->name;
  };
  const std::string vit = "vit_tiny_patch16_224", own = "deit_tiny_patch16_224";
  EXPECT_EQ(found("w.pth", {}), vit);  // the first; see the others
  EXPECT_EQ(found("deit_tiny_patch16_224.pth", {}), own);
  EXPECT_EQ(found("deit_tiny_patch16_224.pth", {.metadata = vit}), vit);
  EXPECT_EQ(found("w.pth", {.model = vit, .metadata = own}), vit);
  EXPECT_EQ(found("deit_tiny_patch16_224.pth", {.metadata = "my own network"}), own);
  EXPECT_EQ(found("deit_tiny_patch16_224.pth", {.file = false}), vit);
  SafetensorsFile checkpoint = library_file(deit, "checkpoint.pth");
  checkpoint.set_network(own);
  EXPECT_EQ(preset_of_file(checkpoint)->name, own);
  EXPECT_EQ(preset_of_file(checkpoint)->by, "its checkpoint");
  EXPECT_EQ(preset_of_file(checkpoint, {.metadata = vit})->name, vit);
  // A preset without ImageNet weights is no network of a file from elsewhere.
  EXPECT_EQ(found("lstm-cats.pth", {}), vit);
}

TEST(PresetOfFile, SaysWhatOfAFilesNameIsNotKnown) {
  std::vector<SafetensorsTensor> tensors = library_tensors(family_row("resnet18"));
  EXPECT_EQ(preset_of_file(SafetensorsFile::of("resnet18_best.pth", tensors))->unread, "")
      << "of other classes than ImageNet's: somebody's own";
  for (SafetensorsTensor& tensor : tensors) {
    if (tensor.name.starts_with("fc.")) tensor.shape[0] = 1000;
  }
  EXPECT_EQ(preset_of_file(SafetensorsFile::of("resnet18_gn.pth", tensors))->unread,
            "'_gn' of its file name");
  EXPECT_THAT(notes_on("w.pth", {.name = "resnet18", .unread = "'_gn' of its file name"}),
              testing::ElementsAre(
                  "w.pth: '_gn' of its file name is not known, and resnet18 is assumed all the "
                  "same: --model NAME (of a configuration: model=NAME) says which network it is"));
  SafetensorsFile checkpoint = library_file(family_row("resnet18"), "w.pth");
  checkpoint.set_network("resnet18_gn");
  EXPECT_EQ(preset_of_file(checkpoint)->unread, "'_gn' of its checkpoint");
}

TEST(PresetOfFile, RefusesAModelWithWordsBehindItsName) {
  const auto refused = [](const char* model) {
    return message_of(ErrorKind::usage, [&] {
      preset_of_file(library_file(family_row("resnet18"), "w.pth"), {.model = model});
    });
  };
  EXPECT_EQ(refused("resnet18_gn"),
            "--model: expected a preset with ImageNet weights, got 'resnet18_gn': '_gn' is unknown "
            "behind resnet18; did you mean resnet18 or timm/resnet18?");
  EXPECT_THAT(refused("resnet18.foo"), testing::HasSubstr("'.foo' is unknown behind resnet18"));
  EXPECT_EQ(refused("resnet18.a3_in1k"), "no error");
}

TEST(PresetOfFile, ModulesTellTheLibraryOfEqualTensors) {
  const auto found = [](const char* file, const std::string& library,
                        const std::string& model = "") {
    SafetensorsFile weights = library_file(family_row("resnet18"), file);
    weights.set_network("", library);
    return all_of(*preset_of_file(weights, {.model = model}));
  };
  using testing::ElementsAre;
  EXPECT_THAT(found("resnet18.pth", ""), ElementsAre("timm/resnet18", "resnet18"));
  EXPECT_THAT(found("resnet18.pth", "timm"), ElementsAre("timm/resnet18"));
  EXPECT_THAT(found("w.pth", "timm"), ElementsAre("timm/resnet18"));
  EXPECT_THAT(found("w.pth", "torchvision"), ElementsAre("resnet18"));
  EXPECT_THAT(found("w.pth", "timm", "resnet18"), ElementsAre("resnet18"));
}

TEST(PresetOfFile, TellsANameThatIsNoPresets) {
  SafetensorsFile checkpoint = library_file(family_row("resnet18"), "resnet18-f37072fd.pth");
  EXPECT_EQ(preset_of_file(checkpoint)->unknown, "");
  checkpoint.set_network("my_net");
  EXPECT_EQ(preset_of_file(checkpoint)->unknown, "its checkpoint says 'my_net'");
  EXPECT_EQ(preset_of_file(checkpoint, {.metadata = "ours"})->unknown, "its metadata says 'ours'");
  EXPECT_EQ(preset_of_file(checkpoint, {.model = "resnet18", .metadata = "ours"})->unknown, "");
  EXPECT_THAT(notes_on("w.pth", {.name = "resnet18", .unknown = "its metadata says 'ours'"}),
              testing::ElementsAre(
                  "w.pth: its metadata says 'ours', which names no preset and is not followed: "
                  "--model NAME (of a configuration: model=NAME) says which network it is"));
  const auto named = [](const std::string& metadata) {
    const std::string header = R"({"__metadata__":)" + metadata + "}";
    std::string content(8, '\0');
    content[0] = static_cast<char>(header.size());
    content += header;
    const SafetensorsFile file =
        SafetensorsFile::parse(std::as_bytes(std::span(content)), "w.safetensors");
    return network_in_metadata(file) + name_in_vain(file);
  };
  EXPECT_EQ(named(R"({"architecture":"my_net"})"), "my_net, though its metadata says my_net");
  EXPECT_EQ(named(R"({"architecture":"a","arch":"b"})"), "b, though its metadata says b");
  EXPECT_EQ(named("{}"), "");
}

// Lightning's module around timm's network.
TEST(PresetOfFile, UnwrapsTheNetworkUnderItsOwnNames) {
  std::vector<SafetensorsTensor> tensors = library_tensors(family_row("mobilenetv3_small_100"));
  for (SafetensorsTensor& tensor : tensors) tensor.name.insert(0, "model._orig_mod.");
  tensors.push_back({.name = "criterion.weight", .shape = {}, .bytes = {}});
  const SafetensorsFile file = SafetensorsFile::of("w.ckpt", tensors);
  std::set<std::string> names, wanted;
  for (const SafetensorsTensor& tensor : unwrapped_tensors("mobilenetv3_small_100", file)) {
    names.insert(tensor.name);
  }
  for (const SafetensorsTensor& tensor : library_tensors(family_row("mobilenetv3_small_100"))) {
    wanted.insert(tensor.name);
  }
  EXPECT_EQ(names, wanted);
  EXPECT_EQ(unwrapped_tensors("", file).size(), tensors.size());
}

TEST(PresetOfFile, ACheckpointOfAnotherNetworkMayBearAPresetsName) {
  SafetensorsFile checkpoint = SafetensorsFile::of("w.pth", {});
  checkpoint.set_network("resnet50");
  EXPECT_FALSE(preset_of_file(checkpoint));
}

TEST(PresetOfFile, RefusesANameThatTheTensorsContradict) {
  const auto refused = [](const char* file, const NetworkNames& names) {
    return message_of(names.model == "resnet19" ? ErrorKind::usage : ErrorKind::checkpoint,
                      [&] { preset_of_file(library_file(family_row("resnet18"), file), names); });
  };
  using testing::HasSubstr;
  EXPECT_EQ(refused("resnet50-11ad3fa6.pth", {}),
            "resnet50-11ad3fa6.pth: its file name says resnet50, but its tensors are those of "
            "another network: layer1.0.conv1.weight is (64,64,3,3) in the file, (64,64,1,1) in the "
            "network. --model NAME says which network it is, or another name of the file.");
  EXPECT_THAT(refused("w.pth", {.model = "resnet34"}),
              HasSubstr("--model says resnet34, but its tensors are those of another network: "
                        "layer1.2.conv1.weight is missing. --model NAME"));
  EXPECT_THAT(refused("w.pth", {.metadata = "resnet34"}), HasSubstr("its metadata says resnet34"));
  SafetensorsFile checkpoint = library_file(family_row("resnet18"), "w.pth");
  checkpoint.set_network("resnet34");
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { preset_of_file(checkpoint); }),
              HasSubstr("its checkpoint says resnet34"));
  EXPECT_THAT(refused("resnetblur18.pth", {}), HasSubstr("says resnetblur18, which is no preset"));
  EXPECT_THAT(refused("w.pth", {.model = "resnet19"}),
              HasSubstr("--model: expected a preset with ImageNet weights, got 'resnet19'; did you "
                        "mean 'resnet18'?"));
  EXPECT_EQ(difference_of_weights(library_file(family_row("resnet34"), "w"),
                                  family_network("resnet18", 0))
                .first,
            "layer1.2.bn1.bias is in the file alone");
}

}  // namespace
}  // namespace whisker::test
