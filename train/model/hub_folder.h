// Weights as Hugging Face hands them out: a folder of model.safetensors or pytorch_model.bin,
// config.json and preprocessor_config.json. config.json is timm's or that of one of
// transformers' classifiers; docs/reference/formats.md.
#pragma once

#include "core/io/safetensors.h"

#include <filesystem>
#include <string>

namespace whisker {

/// The weights file of such a folder; `path` itself where it is no folder. Throws checkpoint for a
/// folder without one.
std::string weights_in(const std::string& path);

/// open_weights(), with what the files beside model.safetensors and pytorch_model.bin say: timm's
/// name of the network as network(), and as the metadata that `whisker train` writes `classes` and
/// `preprocess`; of transformers' networks `config` as well, and their tensors as the preset has
/// them. Throws checkpoint where the files contradict each other.
SafetensorsFile open_described_weights(const std::filesystem::path& path,
                                       const std::string& key = "");

}  // namespace whisker
