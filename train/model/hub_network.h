// The network that config.json of Hugging Face's transformers describes, as a preset of Whisker's.
#pragma once

#include "core/io/safetensors.h"
#include "train/model/hub_json.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace whisker {

struct HubNetwork {
  std::string name = {};     ///< "ViTForImageClassification"
  std::string section = {};  ///< the `model` section
  int64_t image_size = 0;    ///< that it is made for
  bool any_size = false;     ///< it takes others as well
  int64_t classes = 0;       ///< outputs of its head
};

/// Whether it is one of the `model_type` that are presets: vit, deit, convnext, resnet.
bool is_hub_network(std::string_view model_type);

/// The network of `config`; `file` has its tensors under the preset's names
/// (use_preset_tensors). Throws checkpoint for what no preset computes, and where the two
/// contradict each other.
HubNetwork hub_network(HubJson& config, std::string_view model_type, const SafetensorsFile& file);

}  // namespace whisker
