// Tensors of Hugging Face's transformers as the presets store them: its vision transformers keep
// query, key and value apart, and DeiT's second token and head.
#pragma once

#include "core/io/safetensors.h"

#include <string_view>

namespace whisker {

/// Gives the tensors of the classifier that config.json calls `model_type` the names of its preset
/// (names_from_transformers). Of vision transformers query, key and value become one (3C,C), zeros
/// standing for biases that they lack; DeiT's two tokens become one parameter (1,2,C); its two
/// heads (classes,C), of which it averages the logits, become one that reads both tokens,
/// (classes,2C). Throws checkpoint for parts that do not fit together.
void use_preset_tensors(SafetensorsFile& file, std::string_view model_type);

}  // namespace whisker
