// The network of a weights file that does not describe it: the preset whose tensors it holds.
#pragma once

#include "core/io/safetensors.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

struct PresetOfFile {
  std::string name;
  int64_t classes = 0;  ///< outputs of the head; 1: a logit of two classes
};

/// The preset whose names and shapes the file has, but for the number of classes: under
/// torchvision's names or timm's. Presets that say how ImageNet's images become their input (a
/// `data` section) are compared. Nothing when none fits.
std::optional<PresetOfFile> preset_of_file(const SafetensorsFile& file);

/// For a file that is no preset: the one with the most of its names and shapes, and where they first
/// differ, as the end of a sentence; "" where none is near.
std::string nearest_preset(const SafetensorsFile& file);

/// The file's tensors under the preset's names, from torchvision's or timm's, and of its shapes
/// where timm stores a dense weight as a convolution. As they are for a name that is no preset's.
std::vector<SafetensorsTensor> tensors_of_preset(const std::string& arch,
                                                 const SafetensorsFile& file);

}  // namespace whisker
