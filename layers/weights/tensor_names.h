// Names of tensors in files from elsewhere: prefixes of wrappers, and timm's names of networks that
// are torchvision's, both ways.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// `name` without the prefixes `module.` (DataParallel), and without `_orig_mod.` (torch.compile)
/// wherever it stands, as a part of a network may be compiled.
std::string bare_tensor_name(std::string name);

/// Whose names a file bears.
enum class Naming : uint8_t { torchvision, timm };

/// `names` in the other convention: of the known tables and directions the one that gives the most
/// names that `wanted` accepts. Names that it does not cover, or that are wanted, stay.
std::vector<std::string> translated_names(std::span<const std::string> names,
                                          const std::function<bool(std::string_view)>& wanted);
/// `names` of torchvision as timm writes them, or the reverse, by the table that covers all of
/// them; as they are where no table does.
std::vector<std::string> names_of(Naming naming, std::span<const std::string> names);

/// `names` of the classifier of Hugging Face's transformers that its config.json calls
/// `model_type` (vit, deit, convnext, resnet), as timm writes them, or torchvision for convnext and
/// resnet. Those of no other tensor of the network stay. Throws internal for other types.
std::vector<std::string> names_from_transformers(std::string_view model_type,
                                                 std::span<const std::string> names);

}  // namespace whisker
