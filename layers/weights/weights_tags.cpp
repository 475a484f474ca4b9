#include "layers/weights/weights_tags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

namespace whisker {

/// In presets_data.cpp, which the build makes.
std::string_view weights_tags_text();

namespace {

constexpr size_t hash_bytes = 9;  // with the hyphen

// By "resnet18.a3_in1k" and by "resnet18-40c531c8".
using WeightsTags = std::map<std::string, WeightsTag, std::less<>>;

WeightsTags read_weights_tags() {
  WeightsTags tags;
  const YamlNode file = YamlNode::parse(weights_tags_text(), "weights_tags.yaml");
  for (const YamlNode& group : file.items()) {
    const YamlNode& data = *group.find("data");
    for (const YamlNode& item : group.find("weights")->items()) {
      std::string weights = item.text(), hash;
      if (weights.size() > hash_bytes &&
          is_hash_suffix(weights.substr(weights.size() - hash_bytes))) {
        hash = weights.substr(weights.size() - hash_bytes);
        weights.resize(weights.size() - hash_bytes);
      }
      const size_t dot = weights.find('.');
      const bool timm = dot != weights.npos;
      const WeightsTag tag{.name = timm ? weights.substr(dot + 1) : hash.substr(1),
                           .library = timm ? "timm" : "torchvision",
                           .known = true,
                           .data = data.size() == 0 ? YamlNode() : data};
      if (timm) tags.emplace(weights, tag);
      if (!hash.empty()) tags.emplace(weights.substr(0, dot) + hash, tag);
    }
  }
  return tags;
}

const WeightsTag* known_tag(std::string_view network, std::string_view suffix) {
  static const WeightsTags tags = read_weights_tags();
  const auto found = tags.find(fmt::format("{}{}", network, suffix));
  return found == tags.end() ? nullptr : &found->second;
}

}  // namespace

std::vector<std::string> WeightsTag::settings() const {
  std::vector<std::string> settings;
  for (size_t i = 0; i < data.size(); ++i) {
    std::vector<std::string> values;
    for (const YamlNode& value : data[i].items()) values.push_back(value.text());
    settings.push_back(fmt::format(
        "{}={}", data.keys()[i],
        values.empty() ? data[i].text() : fmt::format("[{}]", fmt::join(values, ", "))));
  }
  return settings;
}

bool is_hash_suffix(std::string_view text) {
  return text.size() == hash_bytes && text[0] == '-' &&
         std::ranges::all_of(text.substr(1), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

WeightsTag find_weights_tag(std::string_view network, std::string_view rest) {
  bool hashed = false;
  if (rest.size() >= hash_bytes && is_hash_suffix(rest.substr(rest.size() - hash_bytes))) {
    const std::string_view hash = rest.substr(rest.size() - hash_bytes);
    if (const WeightsTag* const known = known_tag(network, hash)) return *known;
    rest.remove_suffix(hash_bytes);
    hashed = true;
  }
  if (rest.size() < 2) return {};
  const std::string tag(rest.substr(1));
  if (const WeightsTag* const known = known_tag(network, "." + tag)) return *known;
  if (hashed && (tag == "rwightman" || tag.ends_with("swag"))) return {.library = "torchvision"};
  constexpr std::array<std::string_view, 4> trained_on = {"in1k", "in12k", "in21k", "in22k"};
  const bool timm =
      (hashed && rest[0] == '_') ||
      std::ranges::any_of(trained_on, [&](std::string_view data) { return tag.ends_with(data); });
  if (!timm && rest[0] != '.') return {};  // "_best": a word of the user's own
  return {.name = tag, .library = timm ? "timm" : ""};
}

}  // namespace whisker
