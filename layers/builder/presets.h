// The networks of configs/presets, embedded in the program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct Preset {
  std::string_view name;
  std::string_view text;  ///< YAML
};

/// In alphabetical order. Made by cmake/EmbedPresets.cmake.
std::span<const Preset> presets();
/// nullptr for an unknown name.
const Preset* find_preset(std::string_view name);
std::vector<std::string> preset_names();

}  // namespace whisker
