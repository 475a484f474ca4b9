// The weights files that torchvision and timm hand out for presets:
// configs/presets/pretrained.yaml, embedded in the program. Nothing here reads a file or a network.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// Published weights of one preset. "" and nullopt: not known.
struct PretrainedWeights {
  std::string preset;
  std::string source;               ///< torchvision or timm
  std::string tag;                  ///< which of its sets of weights: IMAGENET1K_V1, a1_in1k
  std::string trained_on;           ///< "ImageNet-21k, ImageNet-1k"
  std::optional<double> top1 = {};  ///< percent of ImageNet's validation images
  std::string licence;              ///< SPDX
  std::optional<double> mib = {};   ///< size of the file
  std::string file;                 ///< its name here
  std::string url;
  std::string sha256;  ///< all 64 digits or the first 8; "": the server states it
};

/// In the order of the table.
std::span<const PretrainedWeights> pretrained_weights();

/// Those of a preset's name or alias, or those that a library calls `name`: "resnet18.a1_in1k",
/// "timm/resnet18.a1_in1k". nullptr where there are none.
const PretrainedWeights* find_pretrained(std::string_view name);

}  // namespace whisker
