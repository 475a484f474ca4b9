#include "layers/weights/weights_tags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>

namespace whisker {

/// In presets_data.cpp, which the build makes.
std::string_view weights_tags_text();

namespace {

constexpr size_t hash_bytes = 9;  // with the hyphen

struct WeightsTags {
  // By "resnet18.a3_in1k" and by "resnet18-40c531c8".
  std::map<std::string, WeightsTag, std::less<>> tags;
  std::map<std::string, std::string, std::less<>> older_names;
};

WeightsTags read_weights_tags() {
  WeightsTags all;
  const YamlNode file = YamlNode::parse(weights_tags_text(), "weights_tags.yaml");
  for (const YamlNode& group : file.items()) {
    if (const YamlNode* const older = group.find("older_names")) {
      for (size_t i = 0; i < older->size(); ++i) {
        all.older_names.emplace(older->keys()[i], (*older)[i].text());
      }
      continue;
    }
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
      if (timm) all.tags.emplace(weights, tag);
      if (!hash.empty()) all.tags.emplace(weights.substr(0, dot) + hash, tag);
    }
  }
  return all;
}

const WeightsTags& known_tags() {
  static const WeightsTags all = read_weights_tags();
  return all;
}

const WeightsTag* known_tag(std::string_view network, std::string_view suffix) {
  const auto found = known_tags().tags.find(fmt::format("{}{}", network, suffix));
  return found == known_tags().tags.end() ? nullptr : &found->second;
}

constexpr std::string_view separators = "-_. (";

bool ends_at(std::string_view text, size_t end) {
  return end == text.size() || separators.find(text[end]) != separators.npos;
}

bool names_a_data_set(std::string_view tag) {
  constexpr std::array<std::string_view, 4> trained_on = {"in1k", "in12k", "in21k", "in22k"};
  return std::ranges::any_of(trained_on,
                             [&](std::string_view data) { return tag.ends_with(data); });
}

// The known tag or hash that `rest` is or, the longest, begins with.
std::optional<WeightsTag> known_beginning(std::string_view network, std::string_view rest) {
  for (size_t end = rest.size(); end > 1; --end) {
    if (!ends_at(rest, end)) continue;
    const std::string_view behind = rest.substr(end);
    if (names_a_data_set(behind)) continue;  // of another tag
    const std::string_view own = rest.substr(0, end);
    const WeightsTag* known = is_hash_suffix(own)
                                  ? known_tag(network, own)
                                  : known_tag(network, fmt::format(".{}", own.substr(1)));
    if (!known && own.size() > hash_bytes && is_hash_suffix(own.substr(own.size() - hash_bytes))) {
      // timm's files of before tags: "_a3_0-40c531c8".
      known = known_tag(network, own.substr(own.size() - hash_bytes));
    }
    if (!known) continue;
    WeightsTag tag = *known;
    if (!is_hash_suffix(behind)) tag.unread = behind;
    return tag;
  }
  return std::nullopt;
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
  if (auto known = known_beginning(network, rest)) return *known;
  const std::string whole(rest);
  const bool hashed =
      rest.size() >= hash_bytes && is_hash_suffix(rest.substr(rest.size() - hash_bytes));
  if (hashed) rest.remove_suffix(hash_bytes);
  if (rest.size() < 2) return {.unread = hashed ? "" : whole};
  const std::string tag(rest.substr(1));
  if (hashed && (tag == "rwightman" || tag.ends_with("swag"))) return {.library = "torchvision"};
  const bool timm = (hashed && rest[0] == '_') || names_a_data_set(tag);
  if (!timm && rest[0] != '.') return {.unread = whole};
  return {.name = tag, .library = timm ? "timm" : ""};
}

std::string with_present_name(std::string_view text) {
  const auto& names = known_tags().older_names;
  for (size_t end = text.size(); end > 0; --end) {
    if (!ends_at(text, end)) continue;
    const auto found = names.find(text.substr(0, end));
    if (found != names.end()) return fmt::format("{}{}", found->second, text.substr(end));
  }
  return std::string(text);
}

}  // namespace whisker
