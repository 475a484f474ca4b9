#include "layers/weights/preset_name.h"

#include "layers/builder/presets.h"

#include <algorithm>
#include <cctype>
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

// torchvision and timm end a file's name with eight digits of its hash.
bool is_hash(std::string_view text) {
  return text.size() == 9 && text[0] == '-' &&
         std::ranges::all_of(text.substr(1), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// Of timm's weights: ".a1_in1k", ".augreg_in21k_ft_in1k", "_ram-a26f946b". Some are torchvision's.
bool is_timm_tag(std::string_view text) {
  for (const std::string_view other : {".tv_", ".tv2_", "_rwightman-", "_swag-", "_lc_swag-"}) {
    if (text.starts_with(other)) return false;
  }
  if (text.starts_with('_') && text.size() > 9 && is_hash(text.substr(text.size() - 9)))
    return true;
  return std::ranges::any_of(std::vector<std::string_view>{"in1k", "in12k", "in21k", "in22k"},
                             [&](std::string_view data) { return text.ends_with(data); });
}

}  // namespace

std::optional<PresetName> find_preset_name(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view rest = lower;
  const bool timm = take_prefix(rest, "timm");
  const bool torchvision = !timm && (take_prefix(rest, "torchvision") || take_prefix(rest, "tv"));
  PresetName found;
  for (const std::string& name : all_networks()) {
    const bool whole = rest.starts_with(name) &&
                       (rest.size() == name.size() ||
                        std::string_view("-_.").find(rest[name.size()]) != std::string_view::npos);
    if (whole && name.size() > found.network.size()) found.network = name;
  }
  if (found.network.empty()) return std::nullopt;
  const std::string_view tag = rest.substr(found.network.size());
  found.download = is_hash(tag);
  found.unsupported = std::ranges::count(unsupported_networks(), found.network) > 0;
  const Preset* plain = find_preset(found.network);
  const Preset* of_timm = find_preset(std::string(timm_prefix) + found.network);
  const bool only_timm = timm || (!torchvision && is_timm_tag(tag));
  if (plain && !(only_timm && of_timm)) found.presets.emplace_back(plain->name);
  if (of_timm && !torchvision) found.presets.emplace_back(of_timm->name);
  if (found.presets.empty() && !found.unsupported) return std::nullopt;
  return found;
}

std::optional<PresetName> preset_name_of_file(std::string_view path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view suffix :
       {".tar", ".pth", ".pt", ".bin", ".ckpt", ".safetensors", ".onnx"}) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) {
      name.erase(name.size() - suffix.size());
    }
  }
  return find_preset_name(name);
}

}  // namespace whisker
