// Which of a file's tensors a model's parameters may take: by name, and by shape but for what files
// of one network differ in.
#pragma once

#include "layers/weights/weights.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// "(64,3,7,7)".
std::string shape_text(const std::vector<uint64_t>& shape);

/// Whether one of the patterns selects the name.
bool any_selects(const std::vector<std::string>& patterns, std::string_view name);

/// The names of a file's tensors, bare (tensor_names.h).
std::vector<std::string> bare_names(const SafetensorsFile& file);

/// A file's tensors under the names that the model may know.
using TensorsByName = std::map<std::string, const SafetensorsTensor*, std::less<>>;
/// The names of those that stand beside the network are added to `beside`. Throws checkpoint where
/// two have one name, and where the file has several such networks, each under a prefix.
TensorsByName tensors_by_name(const SafetensorsFile& file, const ParameterList& parameters,
                              std::vector<std::string>* beside = nullptr);

/// Whether the shapes are equal, the same vector, or those of a dense weight and the convolution
/// (units, channels, height, width) it equals.
bool tensor_fits(const SafetensorsTensor& tensor, const Parameter& parameter);
/// Whether the tensor is that of the first convolution of a network on gray images, stored for red,
/// green and blue.
bool sums_to_gray(const SafetensorsTensor& tensor, const Parameter& parameter, const Model& model);
/// Whether the shapes are the same but for the number of outputs.
bool differs_in_classes(const SafetensorsTensor& tensor, const Parameter& parameter);

}  // namespace whisker
