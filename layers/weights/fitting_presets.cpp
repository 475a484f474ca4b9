#include "layers/weights/fitting_presets.h"

#include "layers/weights/tensor_match.h"
#include "layers/weights/tensor_names.h"
#include "layers/weights/weights.h"
#include "layers/weights/wrapped_names.h"

#include <algorithm>
#include <set>
#include <utility>

namespace whisker {
namespace {

using Sections = std::span<const YamlNode>;

std::optional<Model> imagenet_model(const Preset& preset, Sections sections) {
  constexpr int64_t imagenet_classes = 1000, usual_size = 224;
  const std::string name = fmt::format("preset {}", preset.name);
  const YamlNode data = merged_key(sections, "data");
  if (data.is_null()) return std::nullopt;
  const YamlNode* size = data.find("image_size");
  const int64_t side = size ? size->as_int({.min = 1, .max = 4096}) : usual_size;
  return build_model(YamlNode::parse(preset.name, name),
                     {.input = {1, side, side, 3}, .classes = imagenet_classes});
}

}  // namespace

std::optional<Model> imagenet_model(const Preset& preset) {
  return imagenet_model(preset, preset_sections(preset));
}

FittingPresets::FittingPresets(const SafetensorsFile& file)
    : file_(file), names_(bare_names(file)) {}

std::optional<FittingPreset> FittingPresets::find(const Preset& preset) {
  const std::vector<YamlNode> sections = preset_sections(preset);
  const Fit& fit = fit_of(preset, sections);
  if (!fit.classes) return std::nullopt;
  const bool timm = preset_library(sections) == "timm";
  return FittingPreset{&preset, *fit.classes, all_named(fit.names, timm)};
}

const FittingPresets::Fit& FittingPresets::fit_of(const Preset& preset, Sections sections) {
  // The layers are those of the last section, but for these keys.
  std::string key = merged_key(sections, "values").emit();
  for (const char* number : {"width", "depth", "grid"}) {
    const auto found = std::ranges::find_if(
        sections, [&](const YamlNode& section) { return section.find(number) != nullptr; });
    key +=
        fmt::format("{}: {}\n", number, found == sections.end() ? "" : found->find(number)->text());
  }
  key += sections.back().mark().str();
  const auto [place, added] = fits_.try_emplace(std::move(key));
  if (!added || !may_be(sections.back())) return place->second;
  const std::optional<Model> model = imagenet_model(preset, sections);
  if (!model) return place->second;
  place->second.classes = classes_that_fit(file_, *model);
  for (const auto& parameter : model->net->parameters()) {
    place->second.names.push_back(parameter->name());
  }
  return place->second;
}

// Whether the file has the outermost layers that bear a name, under either library's names.
bool FittingPresets::may_be(const YamlNode& section) {
  std::vector<std::string> outermost;
  for (const char* list : {"layers", "head"}) {
    const YamlNode* const layers = section.find(list);
    for (size_t i = 0; layers && i < layers->size(); ++i) {
      const YamlNode& layer = (*layers)[i];
      if (!layer.is_map()) continue;
      const std::string& type = layer.keys()[0];
      const YamlNode* const name = layer[0].find("name");
      const bool has_weight = type == "conv2d" || type == "dense" || type == "batch_norm";
      if (name && has_weight) outermost.push_back(name->text() + ".weight");
    }
  }
  for (const Naming naming : {Naming::torchvision, Naming::timm}) {
    if (has_all(outermost) || has_all(names_of(naming, outermost))) return true;
  }
  return false;
}

// At the ends of its names, as a wrapper's name may stand before them.
bool FittingPresets::has_all(const std::vector<std::string>& wanted) const {
  return std::ranges::all_of(wanted, [&](const std::string& name) {
    return std::ranges::any_of(names_, [&](const std::string& own) {
      return own.ends_with(name) &&
             (own.size() == name.size() || own[own.size() - name.size() - 1] == '.');
    });
  });
}

// Whether the file's names are those that the library gives the tensors.
bool FittingPresets::all_named(const std::vector<std::string>& preset_names, bool timm) const {
  const std::set<std::string, std::less<>> parameters(preset_names.begin(), preset_names.end());
  const std::vector<std::string> names =
      names_of(timm ? Naming::timm : Naming::torchvision, preset_names);
  const std::set<std::string> wanted(names.begin(), names.end());
  const std::string prefix = unwrapped_names(names_, [&](std::string_view name) {
                               return parameters.contains(name);
                             }).prefix;
  return std::ranges::all_of(names_, [&](const std::string& name) {
    const bool beside = !name.starts_with(prefix);
    return beside || is_counter(name) ||
           wanted.contains(bare_tensor_name(name.substr(prefix.size())));
  });
}

}  // namespace whisker
