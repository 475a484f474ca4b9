// The networks of configs/presets, embedded in the program.
#pragma once

#include "core/io/yaml.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

struct Preset {
  std::string_view name;
  std::string_view text;  ///< YAML
};

/// Those with a file of their own, in alphabetical order. Made by cmake/EmbedPresets.cmake.
std::span<const Preset> presets();
/// Those of variants.yaml, in its order: each begins with another preset.
std::span<const Preset> preset_variants();
/// Other names of presets in variants.yaml: name, then preset.
std::span<const std::pair<std::string, std::string>> preset_aliases();
/// Networks that have a preset's tensors and compute something else; no presets.
std::span<const std::string> unsupported_networks();

/// By name or alias; nullptr for an unknown one.
const Preset* find_preset(std::string_view name);
/// The names of all presets, without aliases.
std::vector<std::string> preset_names();

/// A preset's sections: its own and, behind it, those of the presets it begins with.
std::vector<YamlNode> preset_sections(const Preset& preset);
/// The maps under `key` as one, the first section's values first; null where none has it. Throws
/// usage for other kinds of nodes.
YamlNode merged_key(std::span<const YamlNode> sections, std::string_view key);

/// Whether its input is rows of numbers (`input: rows`), not an image.
bool reads_rows(const Preset& preset);
/// The library whose weights files a preset of these sections reads: "torchvision" or "timm".
std::string preset_library(std::span<const YamlNode> sections);

}  // namespace whisker
