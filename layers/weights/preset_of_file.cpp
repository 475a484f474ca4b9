#include "layers/weights/preset_of_file.h"

#include "core/io/text.h"
#include "layers/builder/presets.h"
#include "layers/weights/fitting_presets.h"
#include "layers/weights/preset_name.h"
#include "layers/weights/tensor_match.h"
#include "layers/weights/weights.h"
#include "layers/weights/wrapped_names.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

namespace whisker {

namespace {

constexpr const char *by_option = "--model", *by_metadata = "its metadata",
                     *by_checkpoint = "its checkpoint", *by_file_name = "its file name";

// Those of the file's library alone, if there are any: by its tensors' names and by its modules.
std::optional<PresetOfFile> choose(std::vector<FittingPreset> candidates, std::string by,
                                   const std::string& library) {
  if (candidates.empty()) return std::nullopt;
  const auto prefer = [&](const auto& preferred) {
    if (!std::ranges::any_of(candidates, preferred)) return;
    std::erase_if(candidates, std::not_fn(preferred));
  };
  prefer([](const FittingPreset& one) { return one.own_library; });
  prefer([&](const FittingPreset& one) {
    return preset_library(preset_sections(*one.preset)) == library;
  });
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

std::optional<PresetOfFile> preset_by_tensors(const SafetensorsFile& file,
                                              bool own_library_only = false) {
  std::vector<FittingPreset> candidates;
  FittingPresets fitting(file);
  for (const std::span<const Preset> list : {presets(), preset_variants()}) {
    for (const Preset& preset : list) {
      const auto found = fitting.find(preset);
      if (found && (found->own_library || !own_library_only)) candidates.push_back(*found);
    }
  }
  return choose(std::move(candidates), "its tensors", file.library());
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
  // timm's tensors in mobilenet_v3_small.pth: the network is rather timm's of the same layers.
  const bool misnamed =
      by == by_file_name && !candidates.empty() &&
      std::ranges::none_of(candidates, [](const auto& one) { return one.own_library; });
  if (misnamed) {
    if (auto found = preset_by_tensors(file, true)) {
      found->misnamed = name.presets[0];
      return found;
    }
  }
  const bool decided = by == by_option || name.download;
  if (auto found = choose(std::move(candidates), by, decided ? "" : file.library())) {
    if (decided) found->others.clear();
    return found;
  }
  const bool of_trainer =
      by == by_checkpoint || (by == by_metadata && !file.metadata().contains("arch"));
  if (of_trainer && !preset_by_tensors(file)) return std::nullopt;
  const Model model = *imagenet_model(*find_preset(name.presets[0]));
  fail(ErrorKind::checkpoint,
       "{}: {} says {}, but its tensors are those of another network: {}. {} NAME says which "
       "network it is{}.",
       file.name(), by, name.presets[0], difference_of_weights(file, model).first, by_option,
       by == by_file_name ? ", or another name of the file" : "");
}

// What the file's network() names. In config.json a name is one of timm's architectures, with the
// tag of its weights: "timm/resnet18_gn" is no resnet18.
std::optional<PresetName> network_of(const SafetensorsFile& file) {
  auto found = find_preset_name(file.network());
  if (!found || file.network_by() != by_config_json) return found;
  const std::string whole = fmt::format("timm/{}", found->network);
  const bool named = file.network() == whole || file.network().starts_with(whole + ".");
  return named ? std::move(found) : std::nullopt;
}

// A network that timm calls otherwise than any preset: tensors do not tell what it computes.
[[noreturn]] void refuse_architecture(const SafetensorsFile& file, const std::string& preset) {
  fail(ErrorKind::checkpoint,
       "{}: {} says {}, which is no preset: it has the tensors of {} and may compute something "
       "else. --model NAME takes them for that preset all the same.",
       file.name(), by_config_json, excerpt(file.network()), preset);
}

// Throws usage for a text that names no preset of images.
PresetName given_preset(const std::string& text) {
  const auto name = find_preset_name(text);
  const bool known_name = name && (name->unsupported || reads_imagenet(name->presets[0]));
  if (known_name && name->whole()) return *name;
  if (known_name) {
    const WeightsTag& tag = name->tag;
    fail(ErrorKind::usage,
         "{}: expected a preset with ImageNet weights, got {}: {} is unknown behind {}; did you "
         "mean {}?",
         by_option, excerpt(text), excerpt(tag.unread.empty() ? "." + tag.name : tag.unread),
         name->network, fmt::join(name->presets, " or "));
  }
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
  struct Said {
    std::string text;  // "" of a file's name, which may be any
    std::optional<PresetName> name;
    const char* by;
  };
  const std::string own = names.file ? file.name() : "";
  const bool by_json = file.network_by() == by_config_json;
  std::vector<Said> said = {
      {names.metadata, find_preset_name(names.metadata), by_metadata},
      {file.network(), network_of(file), by_json ? by_config_json : by_checkpoint},
      {"", preset_name_of_file(own), by_file_name}};
  if (!names.model.empty()) {
    said.insert(said.begin(), Said{names.model, given_preset(names.model), by_option});
  }
  std::string unknown;
  for (Said& one : said) {
    const bool known = one.name && (one.name->unsupported || reads_imagenet(one.name->presets[0]));
    if (known) continue;
    one.name.reset();
    if (unknown.empty() && !one.text.empty() && names.model.empty()) {
      unknown = fmt::format("{} says {}", one.by, excerpt(one.text));
    }
  }
  std::erase_if(said, [](const Said& one) { return !one.name; });
  std::optional<PresetOfFile> found =
      said.empty() ? preset_by_tensors(file) : named_preset(file, *said[0].name, said[0].by);
  if (!found) return std::nullopt;
  if (said.empty() && by_json) refuse_architecture(file, found->name);
  found->unknown = std::move(unknown);
  // A file of other classes is somebody's own: resnet18_best.pth, resnet18_flowers.pth.
  constexpr int64_t imagenet = 1000;
  const bool own_file = !said.empty() && said[0].by == by_file_name && found->classes != imagenet;
  if (!said.empty() && !own_file && found->misnamed.empty() && !said[0].name->tag.unread.empty()) {
    found->unread = fmt::format("{} of {}", excerpt(said[0].name->tag.unread), said[0].by);
  }
  // "resnet50" and resnet50.a3_in1k.pth: the weaker name says more.
  for (const Said& one : said) {
    if (one.name->tag.name.empty() || std::ranges::count(one.name->presets, found->name) == 0) {
      continue;
    }
    found->tag = one.name->tag;
    break;
  }
  return found;
}

std::vector<std::string> notes_on(const std::string& file, const PresetOfFile& preset) {
  std::vector<std::string> notes;
  const std::string name = printable(file);
  if (!preset.unknown.empty()) {
    notes.push_back(fmt::format(
        "{}: {}, which names no preset and is not followed: --model NAME (of a configuration: "
        "model=NAME) says which network it is",
        name, preset.unknown));
  }
  if (!preset.misnamed.empty()) {
    notes.push_back(fmt::format(
        "{}: {} says {}, whose tensors have other names, and is not followed: --model NAME (of a "
        "configuration: model=NAME) says which network it is",
        name, by_file_name, preset.misnamed));
  }
  if (!preset.unread.empty()) {
    notes.push_back(
        fmt::format("{}: {} is not known, and {} is assumed all the same: --model NAME (of a "
                    "configuration: model=NAME) says which network it is",
                    name, preset.unread, preset.name));
  }
  if (!preset.others.empty()) {
    notes.push_back(fmt::format(
        "{}: {} is assumed; its tensors are those of {} too, which compute or prepare images "
        "otherwise: --model NAME (of a configuration: model=NAME) says which it is",
        name, preset.name, fmt::join(preset.others, ", ")));
  }
  return notes;
}

std::string unknown_tag_note(const std::string& file, const PresetOfFile& preset) {
  if (preset.tag.name.empty() || preset.tag.known) return {};
  return fmt::format(
      "{}: its tag {} is not known: images as the preset {} expects them; data.mean, data.std, "
      "--input decide otherwise",
      printable(file), excerpt(preset.tag.name), preset.name);
}

std::string name_in_vain(const SafetensorsFile& file) {
  const std::string metadata = network_in_metadata(file);
  const std::string& name = metadata.empty() ? file.network() : metadata;
  if (name.empty()) return {};
  return fmt::format(", though {} says {}", metadata.empty() ? file.network_by() : by_metadata,
                     printable(name));
}

std::string network_in_metadata(const SafetensorsFile& file) {
  for (const char* const key : {"arch", "architecture"}) {
    const auto found = file.metadata().find(key);
    if (found != file.metadata().end() && !found->second.empty()) return found->second;
  }
  return {};
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

namespace {

using ShapesByName = std::map<std::string, Shape, std::less<>>;

ShapesByName preset_shapes(const std::string& arch) {
  const Preset* preset = find_preset(arch);
  const std::optional<Model> model = preset ? imagenet_model(*preset) : std::nullopt;
  ShapesByName shapes;
  if (model) {
    for (const auto& parameter : model->net->parameters()) {
      shapes.emplace(parameter->name(), file_shape(*parameter));
    }
  }
  return shapes;
}

UnwrappedNames preset_names_in(const SafetensorsFile& file, const ShapesByName& shapes) {
  return unwrapped_names(bare_names(file),
                         [&](std::string_view name) { return shapes.contains(name); });
}

// With these names; those of none stand beside the network.
std::vector<SafetensorsTensor> renamed(const SafetensorsFile& file, std::vector<std::string> names,
                                       bool network) {
  std::vector<SafetensorsTensor> tensors = file.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].name = std::move(names[i]);
  std::erase_if(tensors, [&](const SafetensorsTensor& tensor) {
    return tensor.name.empty() || (network && is_average_count(tensor.name));
  });
  return tensors;
}

}  // namespace

std::vector<SafetensorsTensor> tensors_of_preset(const std::string& arch,
                                                 const SafetensorsFile& file) {
  const ShapesByName shapes = preset_shapes(arch);
  std::vector<SafetensorsTensor> tensors =
      renamed(file, preset_names_in(file, shapes).names, !shapes.empty());
  for (SafetensorsTensor& tensor : tensors) {
    const auto found = shapes.find(tensor.name);
    if (found == shapes.end()) continue;
    const auto elements = static_cast<int64_t>(tensor.bytes.size() / size_of(tensor.dtype));
    if (found->second.count() == elements) {
      tensor.shape.assign(found->second.begin(), found->second.end());
    }
  }
  return tensors;
}

std::vector<SafetensorsTensor> unwrapped_tensors(const std::string& arch,
                                                 const SafetensorsFile& file) {
  const ShapesByName shapes = preset_shapes(arch);
  return renamed(file, without_prefix(bare_names(file), preset_names_in(file, shapes).prefix),
                 !shapes.empty());
}

}  // namespace whisker
