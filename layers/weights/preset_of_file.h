// The network of a weights file that does not describe it: a preset, by what names it or by its
// tensors.
//
// Note [Look-alikes]: networks of several families have the same tensors and compute something
// else: TensorFlow's padding and epsilon in timm's tf_* networks, other epsilons of timm's
// MobileNetV3, DeiT's mean and std. So names come first: what the user says, the file's metadata,
// its own name. A name must fit the tensors. Of presets that nothing tells apart the first is
// assumed, and the others are said.
#pragma once

#include "core/io/safetensors.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

/// What may name the network of a file, the strongest first; "" for what is silent.
struct NetworkNames {
  std::string model = {};     ///< --model
  std::string metadata = {};  ///< `arch`
  bool file = true;           ///< whether the file's own name counts
};

struct PresetOfFile {
  std::string name;
  int64_t classes = 0;                   ///< of the head
  std::string by = {};                   ///< what decided: "--model", "its file name", ...
  std::vector<std::string> others = {};  ///< presets that it may as well be
};

/// The preset whose names and shapes the file has, but for the number of classes, and that the
/// first name says which is one of a network; see Note [Look-alikes]. The file's names may be
/// torchvision's or timm's. Presets that say how ImageNet's images become their input (a `data`
/// section) are compared. Nothing when none fits, whatever a checkpoint calls its network. Throws
/// usage for a `model` that is no preset's name, and checkpoint for a name whose preset has other
/// tensors, naming the first that differs.
std::optional<PresetOfFile> preset_of_file(const SafetensorsFile& file,
                                           const NetworkNames& names = {});

/// For a file that is no preset: the one with the most of its names and shapes, and where they
/// first differ, as the end of a sentence; "" where none is near.
std::string nearest_preset(const SafetensorsFile& file);

/// The file's tensors under the preset's names, from torchvision's or timm's, and of its shapes
/// where timm stores a dense weight as a convolution. As they are for a name that is no preset's.
std::vector<SafetensorsTensor> tensors_of_preset(const std::string& arch,
                                                 const SafetensorsFile& file);

}  // namespace whisker
