// Building a preset makes no tensors, so that all of them are compared.
#include "layers/weights/preset_of_file.h"

#include "layers/builder/presets.h"
#include "layers/weights/tensor_names.h"
#include "layers/weights/weights.h"
#include "layers/weights/wrapped_names.h"

#include <map>

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

std::string nearest_preset(const SafetensorsFile& file) {
  constexpr double least = 0.3;  // of the names of either
  double best = least;
  std::string text;
  for (const Preset& preset : presets()) {
    const std::optional<Model> model = imagenet_model(preset);
    if (!model) continue;
    const WeightsDifference difference = difference_of_weights(file, *model);
    if (difference.likeness() <= best) continue;
    best = difference.likeness();
    text = fmt::format("the nearest is {}, with {} of its {} tensors: {}", preset.name,
                       difference.fitting, difference.parameters, difference.first);
  }
  return text;
}

std::vector<SafetensorsTensor> tensors_of_preset(const std::string& arch,
                                                 const SafetensorsFile& file) {
  const Preset* preset = find_preset(arch);
  const std::optional<Model> model = preset ? imagenet_model(*preset) : std::nullopt;
  std::map<std::string, Shape, std::less<>> shapes;
  if (model) {
    for (const auto& parameter : model->net->parameters()) {
      shapes.emplace(parameter->name(), file_shape(*parameter));
    }
  }
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    names.push_back(bare_tensor_name(tensor.name));
  }
  names =
      unwrapped_names(names, [&](std::string_view name) { return shapes.contains(name); }).names;
  std::vector<SafetensorsTensor> tensors = file.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].name = names[i];
    const auto found = shapes.find(names[i]);
    if (found == shapes.end()) continue;
    const auto elements = static_cast<int64_t>(tensors[i].bytes.size() / size_of(tensors[i].dtype));
    if (found->second.count() == elements) {
      tensors[i].shape.assign(found->second.begin(), found->second.end());
    }
  }
  std::erase_if(tensors, [](const SafetensorsTensor& tensor) { return tensor.name.empty(); });
  return tensors;
}

}  // namespace whisker
