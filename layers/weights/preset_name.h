// From what people call a network to a preset: timm's and torchvision's names, with the tag of the
// weights or the hash of the file behind them.
#pragma once

#include "layers/weights/weights_tags.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct PresetName {
  std::string network;               ///< "efficientnet_b0"
  std::vector<std::string> presets;  ///< of that name: of torchvision's and of timm's network
  bool download = false;             ///< name and hash, as torchvision's files are called
  bool unsupported = false;          ///< one of unsupported_networks()
  WeightsTag tag = {};               ///< of the network's weights

  /// Whether all of the text is known.
  bool whole() const { return tag.unread.empty() && (tag.name.empty() || tag.known); }
};

/// The longest network's name that `text` begins with: "resnet18-f37072fd",
/// "timm/resnet18.a1_in1k", "tf_efficientnet_b0_ns" (timm's older name of weights),
/// "timm__deit_small_patch16_224". A library before the name, or a tag of timm's weights behind it,
/// leaves one preset of two. Nothing for other texts.
std::optional<PresetName> find_preset_name(std::string_view text);

/// find_preset_name() of a file's name, without its folder and suffix.
std::optional<PresetName> preset_name_of_file(std::string_view path);

}  // namespace whisker
