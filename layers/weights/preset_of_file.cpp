// Building a preset makes no tensors, so that all of them are compared.
#include "layers/weights/preset_of_file.h"

#include "layers/builder/presets.h"
#include "layers/weights/tensor_names.h"
#include "layers/weights/weights.h"

#include <set>

namespace whisker {

namespace {

// Of a preset that says how ImageNet's images become its input; nothing for others.
std::optional<Model> imagenet_model(const Preset& preset) {
  constexpr int64_t imagenet_classes = 1000, usual_size = 224;
  const std::string name = fmt::format("preset {}", preset.name);
  const YamlNode text = YamlNode::parse(preset.text, name);
  const YamlNode* data = text.find("data");
  if (!data) return std::nullopt;
  const YamlNode* size = data->find("image_size");
  const int64_t side = size ? size->as_int({.min = 1, .max = 4096}) : usual_size;
  return build_model(YamlNode::parse(preset.name, name),
                     {.input = {1, side, side, 3}, .classes = imagenet_classes});
}

}  // namespace

std::optional<PresetOfFile> preset_of_file(const SafetensorsFile& file) {
  for (const Preset& preset : presets()) {
    const std::optional<Model> model = imagenet_model(preset);
    if (!model) continue;
    if (const auto classes = classes_that_fit(file, *model)) {
      return {{std::string(preset.name), *classes}};
    }
  }
  return std::nullopt;
}

std::vector<std::string> preset_names_of(const std::string& arch,
                                         std::span<const std::string> names) {
  const Preset* preset = find_preset(arch);
  const std::optional<Model> model = preset ? imagenet_model(*preset) : std::nullopt;
  std::set<std::string_view> known;
  if (model) {
    for (const auto& parameter : model->net->parameters()) known.insert(parameter->name());
  }
  return translated_names(names, [&](std::string_view name) { return known.contains(name); });
}

}  // namespace whisker
