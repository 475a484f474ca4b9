#include "layers/weights/preset_name.h"

#include "core/io/lower_ascii.h"
#include "layers/builder/presets.h"

#include <algorithm>
#include <filesystem>

namespace whisker {
namespace {

constexpr std::string_view timm_prefix = "timm/";

// Takes `prefix` and what separates it from the name.
bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  std::string_view rest = text.substr(prefix.size());
  const size_t name = rest.find_first_not_of("/_-.");
  if (name == 0 || name == rest.npos) return false;
  text = rest.substr(name);
  return true;
}

std::vector<std::string> all_networks() {
  std::vector<std::string> names = preset_names();
  for (std::string& name : names) {
    if (name.starts_with(timm_prefix)) name.erase(0, timm_prefix.size());
  }
  for (const auto& [alias, preset] : preset_aliases()) names.push_back(alias);
  for (const std::string& name : unsupported_networks()) names.push_back(name);
  return names;
}

}  // namespace

std::optional<PresetName> find_preset_name(std::string_view text) {
  const std::string lower = lower_ascii(text);
  std::string_view rest = lower;
  const bool timm = take_prefix(rest, "timm");
  const bool torchvision = !timm && (take_prefix(rest, "torchvision") || take_prefix(rest, "tv"));
  const std::string present = torchvision ? std::string(rest) : with_present_name(rest);
  rest = present;
  PresetName found;
  for (const std::string& name : all_networks()) {
    const bool whole =
        rest.starts_with(name) &&
        (rest.size() == name.size() ||
         std::string_view("-_. (").find(rest[name.size()]) != std::string_view::npos);
    if (whole && name.size() > found.network.size()) found.network = name;
  }
  if (found.network.empty()) return std::nullopt;
  const std::string_view suffix = rest.substr(found.network.size());
  found.download = is_hash_suffix(suffix);
  found.tag = find_weights_tag(found.network, suffix);
  found.unsupported = std::ranges::count(unsupported_networks(), found.network) > 0;
  const Preset* plain = find_preset(found.network);
  const Preset* of_timm = find_preset(std::string(timm_prefix) + found.network);
  const bool only_timm = timm || (!torchvision && found.tag.library == "timm");
  const bool only_torchvision = torchvision || (!timm && found.tag.library == "torchvision");
  if (plain && !(only_timm && of_timm)) found.presets.emplace_back(plain->name);
  if (of_timm && !only_torchvision) found.presets.emplace_back(of_timm->name);
  if (found.presets.empty() && !found.unsupported) return std::nullopt;
  return found;
}

std::optional<PresetName> preset_name_of_file(std::string_view path) {
  std::string name = lower_ascii(std::filesystem::path(path).filename().string());
  for (const std::string_view suffix :
       {".tar", ".pth", ".pt", ".bin", ".ckpt", ".safetensors", ".onnx"}) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) {
      name.erase(name.size() - suffix.size());
    }
  }
  // "resnet18 (1).pth": a browser's second download.
  const size_t copy = name.rfind(" (");
  const bool counted = copy != name.npos && name.ends_with(')') && name.size() > copy + 3 &&
                       name.find_first_not_of("0123456789", copy + 2) == name.size() - 1;
  if (counted) name.erase(copy);
  return find_preset_name(name);
}

}  // namespace whisker
