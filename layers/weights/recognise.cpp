#include "layers/weights/recognise.h"

#include "core/error.h"
#include "layers/builder/model_builder.h"
#include "layers/builder/presets.h"
#include "layers/weights/weights.h"

#include <algorithm>
#include <map>
#include <optional>

namespace whisker {
namespace {

using Shapes = std::map<std::string, std::vector<uint64_t>, std::less<>>;

// Built for images; nothing for a preset of sequences.
std::optional<Model> build_preset(const Preset& preset) {
  constexpr int64_t classes = 1000;
  try {
    const YamlNode file = YamlNode::parse(std::string(preset.text), std::string(preset.name));
    const YamlNode* size = file.find_path("data.image_size");
    const int64_t side = size ? size->as_int() : 224;
    return build_model(YamlNode::parse(std::string(preset.name), "preset"),
                       {.input = {1, side, side, 3}, .classes = classes});
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_of(const Model& model, const Shapes& shapes) {
  const ParameterList parameters = model.net->parameters();
  if (parameters.size() != shapes.size()) return false;
  return std::ranges::all_of(parameters, [&](const auto& parameter) {
    const auto found = shapes.find(parameter->name());
    if (found == shapes.end()) return false;
    const Shape expected = file_shape(*parameter);
    std::vector<uint64_t> extents(expected.begin(), expected.end());
    const bool head = std::ranges::any_of(
        model.head, [&](const std::string& layer) { return selects(layer, parameter->name()); });
    if (head && !extents.empty() && !found->second.empty()) extents[0] = found->second[0];
    return extents == found->second;
  });
}

}  // namespace

std::string recognise_preset(std::span<const NamedShape> tensors) {
  Shapes shapes;
  for (const NamedShape& tensor : tensors) {
    std::string_view name = tensor.name;
    for (const std::string_view prefix : {"module.", "_orig_mod."}) {
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    }
    if (!name.ends_with("num_batches_tracked")) shapes.emplace(name, tensor.shape);
  }
  for (const Preset& preset : presets()) {
    const std::optional<Model> model = build_preset(preset);
    if (model && is_of(*model, shapes)) return std::string(preset.name);
  }
  return "";
}

}  // namespace whisker
