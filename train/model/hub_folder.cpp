#include "train/model/hub_folder.h"

#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/torch_file.h"
#include "layers/weights/preset_name.h"
#include "layers/weights/preset_of_file.h"
#include "layers/weights/transformers_tensors.h"
#include "train/model/hub_images.h"
#include "train/model/hub_json.h"
#include "train/model/hub_network.h"
#include "train/model/signature.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> weights_names = {"model.safetensors",
                                                           "pytorch_model.bin"};
constexpr std::string_view by_input_option = "; --input decides otherwise";

void add_note(SafetensorsFile& file, std::string text) {
  if (!text.empty()) file.add_notes({std::move(text)});
}

// The names of `count` classes under `key`: a list, or a map from their numbers.
std::vector<std::string> names_in(const HubJson& config, const char* key, int64_t count) {
  const JsonValue* const found = config.find(key);
  if (!found) return {};
  std::vector<std::string> names;
  if (found->is_array()) {
    names = found->as_strings();
  } else {
    std::map<int64_t, std::string> by_number;
    for (const auto& [text, name] : found->members()) {
      int64_t number = -1;
      const auto end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
      const bool fine = end == text.data() + text.size() && number >= 0 && number < count;
      config.require(key, fine && by_number.emplace(number, name.as_string()).second,
                     fmt::format("a name for each number from 0 to {}", count - 1));
    }
    for (auto& [number, name] : by_number) names.push_back(std::move(name));
  }
  if (std::ssize(names) != count) {
    config.refuse(key, fmt::format("{} names, one for each output of the weights' head", count),
                  fmt::to_string(names.size()));
  }
  return names;
}

// --- timm ----------------------------------------------------------------------------------------

// The outputs of the head that `classifier` names; 0 where it names none.
int64_t timm_outputs(const SafetensorsFile& file, const HubJson& images) {
  const JsonValue* const name = images.find("classifier");
  if (!name || !name->is_string()) return 0;
  const SafetensorsTensor* weight = file.find(name->as_string() + ".weight");
  if (!weight) weight = file.find("timm_model." + name->as_string() + ".weight");
  return weight && !weight->shape.empty() ? static_cast<int64_t>(weight->shape[0]) : 0;
}

// What create_model() was given besides.
void check_timm_arguments(SafetensorsFile& file, const HubJson& config, int64_t classes) {
  const bool token = file.find("cls_token") != nullptr;
  const auto check_pool = [&](const HubJson& json) {
    const JsonValue* const pool = json.find("global_pool");
    const char* const usual = token ? "token" : "avg";
    json.require("global_pool", !pool || pool->as_string() == usual, fmt::format("'{}'", usual));
  };
  check_pool(config);
  const JsonValue* const given = config.find("model_args");
  if (!given) return;
  const HubJson arguments(config, *given);
  check_pool(arguments);
  std::vector<std::string> unread;
  for (const auto& [key, value] : given->members()) {
    if (key == "global_pool" || key == "img_size") continue;  // the tensors tell the size
    if (key == "num_classes") {
      arguments.require("num_classes", value.as_int() == classes, fmt::to_string(classes));
    } else if (key == "in_chans") {
      arguments.require("in_chans", value.as_int() == 3, "3, as images are RGB");
    } else if (key.ends_with("drop_rate") || key == "drop_path_rate") {
      unread.push_back(fmt::format("{}={}", key, shown(value)));
    } else {
      fail(ErrorKind::checkpoint,
           "{}: model_args: {}={} makes another network than its architecture's, which no preset "
           "computes.",
           config.name(), printable(key), shown(value));
    }
  }
  if (unread.empty()) return;
  add_note(file, fmt::format("{}: {} of model_args are not read: they matter in training alone",
                             printable(config.name()), fmt::join(unread, ", ")));
}

void describe_timm(SafetensorsFile& file, const fs::path& folder, const HubJson& config) {
  const JsonValue* const own = config.find("pretrained_cfg");
  HubJson images = own ? HubJson(config, *own) : config;  // older files have one level
  const std::string& architecture = config.find("architecture")->as_string();
  const JsonValue* const tag = images.find("tag");
  file.set_network(fmt::format("timm/{}{}{}", architecture, tag ? "." : "",
                               tag ? tag->as_string() : std::string()),
                   "timm", by_config_json);
  const auto stored = find_preset_name(network_in_metadata(file));
  if (stored && stored->network != architecture) {
    fail(ErrorKind::checkpoint,
         "{}: architecture: expected {}, as the metadata of {} say, got {}. Move the file that is "
         "wrong away.",
         config.name(), stored->network, file.name(), excerpt(architecture));
  }
  const JsonValue* count = config.find("num_classes");
  if (!count) count = images.find("num_classes");
  const int64_t outputs = timm_outputs(file, images);
  const int64_t classes = count ? count->as_int(1) : outputs;
  if (outputs != 0 && outputs != classes) {
    config.refuse("num_classes", fmt::format("{}, as the weights' head has", outputs),
                  fmt::to_string(classes));
  }
  check_timm_arguments(file, config, classes);
  std::map<std::string, std::string> metadata;
  for (const HubJson* const json : {&config, &std::as_const(images)}) {
    for (const char* const key : {"label_names", "labels"}) {
      if (!json->find(key)) continue;
      metadata.emplace("classes", class_names_json(names_in(*json, key, classes)));
    }
  }
  constexpr std::array<const char*, 6> image_keys = {"input_size",    "crop_pct", "crop_mode",
                                                     "interpolation", "mean",     "std"};
  const bool says_images =
      std::ranges::any_of(image_keys, [&](const char* key) { return images.find(key) != nullptr; });
  if (says_images) {
    const Preprocess expected = timm_images(images);
    add_note(file, images.note(by_input_option));
    HubJson processor(folder / "preprocessor_config.json", "transformers");
    if (processor.exists()) {
      const HubNetwork network{.image_size = expected.output().height, .any_size = true};
      const std::string other = transformers_images(processor, "", network).json();
      if (other != expected.json()) {
        fail(ErrorKind::checkpoint,
             "{} prepares images otherwise than config.json beside it: {}, not {}. Move the one "
             "that is wrong away.",
             processor.name(), other, expected.json());
      }
    }
    metadata.emplace("preprocess", expected.json());
  }
  file.describe(std::move(metadata));
}

// --- transformers --------------------------------------------------------------------------------

void check_label_numbers(const HubJson& config, const std::vector<std::string>& names) {
  const JsonValue* const numbers = config.find("label2id");
  if (!numbers || names.empty()) return;
  for (const auto& [name, value] : numbers->members()) {
    const int64_t number = value.as_int();
    if (number >= 0 && number < std::ssize(names) && names[static_cast<size_t>(number)] == name) {
      continue;
    }
    fail(ErrorKind::checkpoint, "{}: label2id: {} is class {}, but id2label says otherwise",
         config.name(), excerpt(name), number);
  }
}

void describe_transformers(SafetensorsFile& file, const fs::path& folder, HubJson& config) {
  const std::string& type = config.find("model_type")->as_string();
  file.set_network(type, "transformers", by_config_json);
  if (!is_hub_network(type)) return;
  use_preset_tensors(file, type);
  const HubNetwork network = hub_network(config, type, file);
  file.set_network(network.name, "transformers", by_config_json);
  HubJson processor(folder / "preprocessor_config.json", "transformers");
  const Preprocess images = transformers_images(processor, type, network);
  std::vector<std::string> names = names_in(config, "id2label", network.classes);
  check_label_numbers(config, names);
  std::string text =
      fmt::format("{}: recognised by its config.json as transformers' {} of {} classes",
                  printable(file.name()), network.name, network.classes);
  if (names.empty()) {
    for (int64_t c = 0; c < network.classes; ++c) names.push_back(fmt::to_string(c));
    text += ", numbered from 0: --classes FILE names them, one per line";
  }
  add_note(file, std::move(text));
  add_note(file, config.note(""));
  add_note(file, processor.note(by_input_option));
  if (images.resize_short > 0) {
    add_note(file,
             fmt::format("{}: where an odd number of pixels is cut off, the center may begin one "
                         "pixel later than transformers', as torchvision's: it is rounded half to "
                         "even, not down",
                         printable(file.name())));
  }
  file.describe({{"config", fmt::format("model: {}\n", network.section)},
                 {"classes", class_names_json(names)},
                 {"preprocess", images.json()}});
}

}  // namespace

std::string weights_in(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  const fs::path folder = path;
  for (const std::string_view name : weights_names) {
    if (fs::exists(folder / name, error)) return (folder / name).string();
  }
  for (const std::string_view name : weights_names) {
    const fs::path index = folder / fmt::format("{}.index.json", name);
    if (!fs::exists(index, error)) continue;
    fail(ErrorKind::checkpoint,
         "{}: its weights are several files ({}). Save them as one: "
         "model.save_pretrained(FOLDER, max_shard_size=\"100GB\").",
         printable(path), index.filename().string());
  }
  const fs::path best = folder / "best.safetensors";
  if (fs::exists(best, error)) {
    fail(ErrorKind::checkpoint, "{}: expected a weights file, got a folder. Give {}.",
         printable(path), printable(best.string()));
  }
  fail(ErrorKind::checkpoint, "{}: expected a weights file, or a folder with {}, got a folder.",
       printable(path), fmt::join(weights_names, " or "));
}

SafetensorsFile open_described_weights(const fs::path& path, const std::string& key) {
  SafetensorsFile file = open_weights(path, key);
  const fs::path folder = path.parent_path(), config_path = folder / "config.json";
  std::error_code error;
  const auto name = std::ranges::find(weights_names, path.filename().string());
  const bool describes_itself =
      file.metadata().contains("config") || file.metadata().contains("sequence");
  if (name == weights_names.end() || describes_itself || !fs::exists(config_path, error)) {
    return file;
  }
  HubJson config(config_path, "transformers");
  if (const JsonValue* const architecture = config.find("architecture");
      architecture && architecture->is_string()) {
    describe_timm(file, folder, HubJson(config_path, "timm"));
  } else if (const JsonValue* const type = config.find("model_type"); type && type->is_string()) {
    describe_transformers(file, folder, config);
  }
  if (name == weights_names.begin() && fs::exists(folder / weights_names[1], error)) {
    add_note(file, fmt::format("{} is read, not {} beside it", printable(path.string()),
                               weights_names[1]));
  }
  return file;
}

}  // namespace whisker
