#include "layers/weights/pretrained.h"

#include "core/io/yaml.h"
#include "layers/builder/presets.h"

#include <algorithm>
#include <vector>

namespace whisker {

/// In presets_data.cpp, which the build makes.
std::string_view pretrained_weights_text();

namespace {

std::vector<PretrainedWeights> read_pretrained_table() {
  const YamlNode file = YamlNode::parse(pretrained_weights_text(), "pretrained.yaml");
  std::vector<PretrainedWeights> all;
  for (size_t i = 0; i < file.size(); ++i) {
    const YamlNode& row = file[i];
    const auto text = [&](const char* key) {
      const YamlNode* found = row.find(key);
      return found ? found->as_string() : std::string();
    };
    const auto number = [&](const char* key) {
      const YamlNode* found = row.find(key);
      return found ? std::optional(found->as_double({.min = 0})) : std::nullopt;
    };
    all.push_back({.preset = file.keys()[i],
                   .source = text("source"),
                   .tag = text("tag"),
                   .trained_on = text("trained_on"),
                   .top1 = number("top1"),
                   .licence = text("licence"),
                   .mib = number("mib"),
                   .file = text("file"),
                   .url = text("url"),
                   .sha256 = text("sha256")});
  }
  return all;
}

// "resnet18.a1_in1k" of timm-resnet18.a1_in1k.pth.
std::string_view timms_name(const PretrainedWeights& weights) {
  constexpr std::string_view prefix = "timm-";
  std::string_view file = weights.file;
  if (!file.starts_with(prefix)) return {};
  file.remove_prefix(prefix.size());
  return file.substr(0, file.rfind('.'));
}

}  // namespace

std::span<const PretrainedWeights> pretrained_weights() {
  static const std::vector<PretrainedWeights> all = read_pretrained_table();
  return all;
}

const PretrainedWeights* find_pretrained(std::string_view name) {
  const Preset* preset = find_preset(name);
  constexpr std::string_view library = "timm/";
  const std::string_view timm = name.starts_with(library) ? name.substr(library.size()) : name;
  const auto found = std::ranges::find_if(pretrained_weights(), [&](const auto& weights) {
    if (preset) return weights.preset == preset->name;
    return !timm.empty() && timms_name(weights) == timm;
  });
  return found == pretrained_weights().end() ? nullptr : &*found;
}

}  // namespace whisker
