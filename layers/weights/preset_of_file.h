// The network of a weights file that does not describe it: the preset whose tensors it holds.
#pragma once

#include "core/io/safetensors.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct PresetOfFile {
  std::string name;
  int64_t classes = 0;  ///< of the head
};

/// The preset whose names and shapes the file has, but for the number of classes: under
/// torchvision's names or timm's. Presets that say how ImageNet's images become their input (a
/// `data` section) are compared. Nothing when none fits.
std::optional<PresetOfFile> preset_of_file(const SafetensorsFile& file);

/// `names` as the preset `arch` has them, from torchvision's or timm's; as they are for a name that
/// is no preset's.
std::vector<std::string> preset_names_of(const std::string& arch,
                                         std::span<const std::string> names);

}  // namespace whisker
