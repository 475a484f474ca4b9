// The network of a weights file that does not describe it: a preset, by what names it or by its
// tensors.
//
// Note [Look-alikes]: networks of several families have the same tensors and compute something
// else: TensorFlow's padding and epsilon in timm's tf_* networks, other epsilons of timm's
// MobileNetV3, DeiT's mean and std. So names come first: what the user says, the file's metadata,
// timm's config.json beside it, its own name. A name must fit the tensors: one that does not is
// refused, but that of a file whose tensors are named as another library names those of these
// layers; then they say more. Of presets that nothing tells apart the first is assumed, and the
// others are said.
#pragma once

#include "core/io/safetensors.h"
#include "layers/weights/weights_tags.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

/// SafetensorsFile::network_by() of Hugging Face's config.json beside the file.
inline constexpr const char* by_config_json = "its config.json";

/// What may name the network of a file, the strongest first; "" for what is silent.
struct NetworkNames {
  std::string model = {};     ///< --model
  std::string metadata = {};  ///< see network_in_metadata()
  bool file = true;           ///< whether the file's own name counts
};

struct PresetOfFile {
  std::string name;
  int64_t classes = 0;                   ///< of the head
  std::string by = {};                   ///< what decided: "--model", "its file name", ...
  std::vector<std::string> others = {};  ///< presets that it may as well be
  std::string unknown = {};  ///< "its metadata says 'my_net'": a stronger name that no preset has
  /// Preset of the file's name, with the file's layers, not its tensors' names.
  std::string misnamed = {};
  std::string unread = {};   ///< "'_best' of its file name": behind the name that decided
  WeightsTag tag = {};       ///< of its weights, by the strongest name that has one
};

/// What the file's metadata call the network: `arch`, else `architecture`; "" where neither does.
std::string network_in_metadata(const SafetensorsFile& file);

/// The preset whose names and shapes the file has, but for the number of classes, and that the
/// first name says which is one of a network; see Note [Look-alikes]. The file's names may be
/// torchvision's or timm's. Presets that say how ImageNet's images become their input (a `data`
/// section) are compared. Nothing when none fits, whatever a checkpoint calls its network. Throws
/// usage for a `model` that is no preset's name, and checkpoint for a name whose preset has other
/// tensors, naming the first that differs.
std::optional<PresetOfFile> preset_of_file(const SafetensorsFile& file,
                                           const NetworkNames& names = {});

/// The preset with the most names and shapes of a file that is no preset, and where they first
/// differ, as the end of a sentence; "" where none is near.
std::string nearest_preset(const SafetensorsFile& file);

/// Messages for the user: a name that was not followed, and what else the file may hold.
std::vector<std::string> notes_on(const std::string& file, const PresetOfFile& preset);
/// The name that a file bears although no preset fits it: ", though its metadata says 'my_net'"; ""
/// where it bears none.
std::string name_in_vain(const SafetensorsFile& file);
/// The message that the tag of the file's weights is unknown; "" where it is not.
std::string unknown_tag_note(const std::string& file, const PresetOfFile& preset);

/// The file's tensors under the preset's names, from torchvision's or timm's, and of its shapes
/// where timm stores a dense weight as a convolution. As they are for a name that is no preset's.
std::vector<SafetensorsTensor> tensors_of_preset(const std::string& arch,
                                                 const SafetensorsFile& file);
/// The file's tensors under the file's own names and of its shapes, without the words with which a
/// trainer's module wraps the preset's network, and what stands beside it.
std::vector<SafetensorsTensor> unwrapped_tensors(const std::string& arch,
                                                 const SafetensorsFile& file);

}  // namespace whisker
