// Metadata in and out, and the way from a weights file to a network.
#include "train/classifier.h"

#include "core/io/json.h"
#include "layers/weights.h"
#include "train/version.h"

namespace whisker {

std::map<std::string, std::string> WeightsInfo::to_metadata() const {
  JsonWriter names;
  names.begin_array();
  for (const std::string& name : classes) names.value(name);
  names.end_array();
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"classes", names.str()},
      {"preprocess", preprocess.json()},
      {"config", config},
      {"metrics", metrics},
      {"epoch", fmt::format("{}", epoch)},
      {"whisker_version", version},
  };
  if (!arch.empty()) metadata["arch"] = arch;
  return metadata;
}

WeightsInfo WeightsInfo::from_file(const SafetensorsFile& file) {
  const auto find = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  const auto require = [&](const char* key) {
    std::string text = find(key);
    if (text.empty()) {
      fail(ErrorKind::checkpoint,
           "{}: no '{}' in the file's metadata, so it cannot classify pictures. Files made by "
           "'whisker "
           "train' have it; others can start a training run with --init.",
           file.name(), key);
    }
    return text;
  };
  WeightsInfo info;
  const JsonValue classes = JsonValue::parse(
      require("classes"), {.name = file.name() + ": classes", .kind = ErrorKind::checkpoint});
  for (const JsonValue& name : classes.items()) info.classes.push_back(name.as_string());
  info.preprocess = Preprocess::from_json(require("preprocess"), file.name());
  info.config = find("config");
  info.arch = find("arch");
  info.metrics = find("metrics");
  if (info.config.empty() && info.arch.empty()) require("arch");
  return info;
}

Classifier Classifier::load(const std::filesystem::path& path, Device device) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  WeightsInfo info = WeightsInfo::from_file(file);
  const std::string source = file.name() + ": config";
  YamlNode section = YamlNode::parse(info.arch, source);
  if (!info.config.empty()) {
    const YamlNode root = YamlNode::parse(info.config, source);
    if (const YamlNode* model = root.find("model")) section = *model;
  }
  const PictureSize size = info.preprocess.output();
  Model model =
      build_model(section, {.input = {1, size.height, size.width, info.preprocess.channels},
                            .classes = static_cast<int64_t>(info.classes.size())});
  // Nothing is trained here: no gradients, and no initial values to be overwritten.
  for (const auto& parameter : model.net->parameters()) parameter->set_trainable(false);
  auto arena = std::make_shared<ParameterArena>(model.net->parameters(), device, std::nullopt);
  load_weights(file, model, *arena);
  return Classifier(std::move(model), std::move(arena), std::move(info.classes), info.preprocess);
}

}  // namespace whisker
