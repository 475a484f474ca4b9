#include "layers/weights/preset_of_file.h"

#include "core/io/text.h"
#include "layers/builder/presets.h"
#include "layers/weights/fitting_presets.h"
#include "layers/weights/preset_name.h"
#include "layers/weights/tensor_match.h"
#include "layers/weights/tensor_names.h"
#include "layers/weights/weights.h"
#include "layers/weights/wrapped_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace whisker {

namespace {

constexpr const char *by_option = "--model", *by_checkpoint = "its checkpoint",
                     *by_file_name = "its file name";

// Those of the file's library alone, if there are any.
std::optional<PresetOfFile> choose(std::vector<FittingPreset> candidates, std::string by) {
  if (candidates.empty()) return std::nullopt;
  if (std::ranges::any_of(candidates, &FittingPreset::own_library)) {
    std::erase_if(candidates, [](const FittingPreset& one) { return !one.own_library; });
  }
  PresetOfFile found{.name = std::string(candidates[0].preset->name),
                     .classes = candidates[0].classes,
                     .by = std::move(by)};
  for (size_t i = 1; i < candidates.size(); ++i) {
    found.others.emplace_back(candidates[i].preset->name);
  }
  return found;
}

bool reads_imagenet(const std::string& preset) {
  return !merged_key(preset_sections(*find_preset(preset)), "data").is_null();
}

std::optional<PresetOfFile> preset_by_tensors(const SafetensorsFile& file) {
  std::vector<FittingPreset> candidates;
  FittingPresets fitting(file);
  for (const std::span<const Preset> list : {presets(), preset_variants()}) {
    for (const Preset& preset : list) {
      if (const auto found = fitting.find(preset)) candidates.push_back(*found);
    }
  }
  return choose(std::move(candidates), "its tensors");
}

// The preset that `name` says, of those of this name that fit. Nothing for a network that its
// trainer calls as the preset that it was made from (MoCo's and CBAM's `arch: resnet50`).
std::optional<PresetOfFile> named_preset(const SafetensorsFile& file, const PresetName& name,
                                         std::string by) {
  if (name.unsupported) {
    fail(ErrorKind::checkpoint,
         "{}: {} says {}, which is no preset: it has the tensors of one and computes something "
         "else. --model NAME takes them for that preset all the same.",
         file.name(), by, name.network);
  }
  std::vector<FittingPreset> candidates;
  FittingPresets fitting(file);
  for (const std::string& preset : name.presets) {
    if (const auto found = fitting.find(*find_preset(preset))) candidates.push_back(*found);
  }
  if (auto found = choose(std::move(candidates), by)) {
    if (by == by_option || name.download) found->others.clear();
    return found;
  }
  if (by == by_checkpoint && !preset_by_tensors(file)) return std::nullopt;
  const Model model = *imagenet_model(*find_preset(name.presets[0]));
  fail(ErrorKind::checkpoint,
       "{}: {} says {}, but its tensors are those of another network: {}. {} NAME says which "
       "network it is{}.",
       file.name(), by, name.presets[0], difference_of_weights(file, model).first, by_option,
       by == by_file_name ? ", or another name of the file" : "");
}

// Throws usage for a text that names no preset of images.
PresetName given_preset(const std::string& text) {
  const auto name = find_preset_name(text);
  if (name && (name->unsupported || reads_imagenet(name->presets[0]))) return *name;
  std::vector<std::string> known = preset_names();
  std::erase_if(known, [](const std::string& preset) { return !reads_imagenet(preset); });
  const std::string nearest = nearest_name(text, known);
  fail(ErrorKind::usage, "{}: expected a preset with ImageNet weights, got {}{}", by_option,
       excerpt(text),
       nearest.empty() ? fmt::format("; known are {}", fmt::join(known, ", "))
                       : fmt::format("; did you mean '{}'?", nearest));
}

}  // namespace

std::optional<PresetOfFile> preset_of_file(const SafetensorsFile& file, const NetworkNames& names) {
  if (!names.model.empty()) return named_preset(file, given_preset(names.model), by_option);
  const std::string own = names.file ? file.name() : "";
  const std::pair<std::optional<PresetName>, const char*> said[] = {
      {find_preset_name(names.metadata), "its metadata"},
      {find_preset_name(file.network()), by_checkpoint},
      {preset_name_of_file(own), by_file_name}};
  for (const auto& [name, by] : said) {
    if (!name) continue;
    if (name->unsupported || reads_imagenet(name->presets[0])) return named_preset(file, *name, by);
  }
  return preset_by_tensors(file);
}

std::string nearest_preset(const SafetensorsFile& file) {
  constexpr double least = 0.3;  // of the names of either
  double best = least;
  std::string text;
  std::vector<Preset> all(presets().begin(), presets().end());
  all.insert(all.end(), preset_variants().begin(), preset_variants().end());
  for (const Preset& preset : all) {
    const std::optional<Model> model = imagenet_model(preset);
    if (!model) continue;
    const WeightsDifference difference = difference_of_weights(file, *model);
    if (difference.likeness() <= best) continue;
    best = difference.likeness();
    const bool outputs = difference.first.empty();  // a weight and a bias of other numbers
    text = fmt::format("the nearest is {}, with {} of its {} tensors: {}", preset.name,
                       difference.fitting, difference.parameters,
                       outputs ? "its head has several numbers of outputs" : difference.first);
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
  std::erase_if(tensors, [&](const SafetensorsTensor& tensor) {
    return tensor.name.empty() || (preset && is_average_count(tensor.name));
  });
  return tensors;
}

}  // namespace whisker
