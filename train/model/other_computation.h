// Weights that fit a network which computes something else with them: another activation, stride or
// padding leaves tensors' names and shapes as they are.
#pragma once

#include "core/io/safetensors.h"
#include "layers/builder/model_builder.h"
#include "train/config/config.h"

#include <string>

namespace whisker {

/// A warning where the network that the file's `config` describes computes something else than
/// `model` before its head, in a layer that `init` does not skip: the first such layer. "" where
/// none does, and for files without a description.
std::string other_computation(const SafetensorsFile& file, const Model& model,
                              const InitConfig& init);

}  // namespace whisker
