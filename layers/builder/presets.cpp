// Lookup among the embedded texts.
#include "layers/builder/presets.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace whisker {

/// In presets_data.cpp, which the build makes.
std::string_view preset_variants_text();

namespace {

struct Variants {
  std::deque<std::string> texts;  // what the presets point to
  std::vector<Preset> presets;
  std::vector<std::pair<std::string, std::string>> aliases;
  std::vector<std::string> unsupported;

  Variants() {
    const YamlNode file = YamlNode::parse(preset_variants_text(), "variants.yaml");
    for (size_t i = 0; i < file.size(); ++i) {
      const std::string& name = file.keys()[i];
      if (file[i].is_scalar()) {
        aliases.emplace_back(name, file[i].text());
      } else if (file[i].is_sequence()) {
        for (const YamlNode& network : file[i].items()) unsupported.push_back(network.text());
      } else {
        const std::string& stored = texts.emplace_back(name);
        presets.push_back({.name = stored, .text = texts.emplace_back(file[i].emit())});
      }
    }
  }
};

const Variants& variants() {
  static const Variants all;
  return all;
}

}  // namespace

std::span<const Preset> preset_variants() {
  return variants().presets;
}

std::span<const std::pair<std::string, std::string>> preset_aliases() {
  return variants().aliases;
}

std::span<const std::string> unsupported_networks() {
  return variants().unsupported;
}

const Preset* find_preset(std::string_view name) {
  for (const auto& [alias, preset] : preset_aliases()) {
    if (alias == name) return find_preset(preset);
  }
  for (const std::span<const Preset> list : {presets(), preset_variants()}) {
    const auto found = std::ranges::find(list, name, &Preset::name);
    if (found != list.end()) return &*found;
  }
  return nullptr;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  for (const Preset& preset : preset_variants()) names.emplace_back(preset.name);
  return names;
}

std::vector<YamlNode> preset_sections(const Preset& preset) {
  std::vector<YamlNode> sections;
  for (const Preset* one = &preset; one;) {
    sections.push_back(YamlNode::parse(one->text, fmt::format("preset {}", one->name)));
    const YamlNode* next = sections.back().find("preset");
    one = next ? find_preset(next->text()) : nullptr;
  }
  return sections;
}

YamlNode merged_key(std::span<const YamlNode> sections, std::string_view key) {
  YamlNode all;
  for (size_t i = sections.size(); i-- > 0;) {
    const YamlNode* found = sections[i].find(key);
    if (!found) continue;
    found->as_map();
    if (all.is_null()) {
      all = *found;
    } else {
      all.merge(*found);
    }
  }
  return all;
}

bool reads_rows(const Preset& preset) {
  return std::ranges::any_of(preset_sections(preset), [](const YamlNode& section) {
    const YamlNode* const input = section.find("input");
    return input && input->as_string() == "rows";
  });
}

std::string preset_library(std::span<const YamlNode> sections) {
  for (const YamlNode& section : sections) {
    if (const YamlNode* library = section.find("library")) return library->text();
  }
  return "torchvision";
}

}  // namespace whisker
