// Names by the patterns of name_tables.h.
#include "layers/weights/tensor_names.h"

#include "layers/weights/name_tables.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr int most_layers = 1'000'000;

using name_tables::NamePair;
using name_tables::Rows;
using name_tables::tables;

// A pattern over a layer's name; the numbers in braces are read into, or written from, `numbers`.
using Numbers = std::map<char, int>;

struct Place {
  char letter;
  int shift;
  size_t end;  // behind the brace
};
Place place_at(std::string_view pattern, size_t brace) {
  const size_t end = pattern.find('}', brace);
  Place place{.letter = pattern[brace + 1], .shift = 0, .end = end + 1};
  const std::string_view shift = pattern.substr(brace + 2, end - brace - 2);
  if (!shift.empty()) {  // "+1"
    std::from_chars(shift.data() + (shift[0] == '+' ? 1 : 0), shift.data() + shift.size(),
                    place.shift);
  }
  return place;
}

std::optional<Numbers> match(std::string_view pattern, std::string_view name) {
  Numbers numbers;
  size_t at = 0;
  for (size_t i = 0; i < pattern.size();) {
    if (pattern[i] != '{') {
      if (at >= name.size() || name[at++] != pattern[i++]) return std::nullopt;
      continue;
    }
    const Place place = place_at(pattern, i);
    int number = 0;
    const auto read = std::from_chars(name.data() + at, name.data() + name.size(), number);
    if (read.ec != std::errc() || read.ptr == name.data() + at) return std::nullopt;
    if (number < place.shift || number > most_layers) return std::nullopt;
    const auto [found, added] = numbers.emplace(place.letter, number - place.shift);
    if (!added && found->second != number - place.shift) return std::nullopt;
    at = static_cast<size_t>(read.ptr - name.data());
    i = place.end;
  }
  if (at != name.size()) return std::nullopt;
  return numbers;
}

std::string write(std::string_view pattern, const Numbers& numbers) {
  std::string name;
  for (size_t i = 0; i < pattern.size();) {
    if (pattern[i] != '{') {
      name += pattern[i++];
      continue;
    }
    const Place place = place_at(pattern, i);
    const auto found = numbers.find(place.letter);
    name += std::to_string((found == numbers.end() ? 0 : found->second) + place.shift);
    i = place.end;
  }
  return name;
}

// The name by the table's first row that it fits.
std::optional<std::string> translate(std::span<const Rows> table, Naming to,
                                     std::string_view name) {
  const bool to_timm = to == Naming::timm;
  const size_t dot = std::min(name.rfind('.'), name.size());
  // Without the parameter's own part, or with it where a row has it.
  const auto by = [&](std::string_view timm, std::string_view torchvision,
                      int count) -> std::optional<std::string> {
    for (const size_t end : {dot, name.size()}) {
      const auto numbers = match(to_timm ? torchvision : timm, name.substr(0, end));
      if (!numbers) continue;
      const auto b = numbers->find('b');
      if (count > 0 && b != numbers->end() && b->second >= count) continue;
      return write(to_timm ? timm : torchvision, *numbers) + std::string(name.substr(end));
    }
    return std::nullopt;
  };
  for (const Rows& rows : table) {
    const std::string_view from = to_timm ? rows.torchvision : rows.timm;
    if (!name.starts_with(from.substr(0, from.find('{')))) continue;
    if (rows.layers.empty()) {
      if (auto found = by(rows.timm, rows.torchvision, rows.count)) return found;
    }
    for (const NamePair& layer : rows.layers) {
      const auto joined = [](std::string_view block, std::string_view part) {
        return fmt::format("{}.{}", block, part);
      };
      auto found = by(joined(rows.timm, layer.timm), joined(rows.torchvision, layer.torchvision),
                      rows.count);
      if (found) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string bare_tensor_name(std::string name) {
  constexpr std::string_view parallel = "module.", compiled = "_orig_mod.";
  for (size_t at = 0; (at = name.find(compiled, at)) != name.npos;) {
    if (at == 0 || name[at - 1] == '.') {
      name.erase(at, compiled.size());
    } else {
      at += compiled.size();
    }
  }
  while (name.starts_with(parallel)) name.erase(0, parallel.size());
  return name;
}

std::vector<std::string> translated_names(std::span<const std::string> names,
                                          const std::function<bool(std::string_view)>& wanted) {
  std::vector<std::string> best(names.begin(), names.end());
  int64_t most = std::ranges::count_if(best, wanted);
  for (const std::span<const Rows> table : tables) {
    for (const Naming to : {Naming::torchvision, Naming::timm}) {
      std::vector<std::string> renamed(names.begin(), names.end());
      for (std::string& name : renamed) {
        if (wanted(name)) continue;
        if (auto other = translate(table, to, name)) name = std::move(*other);
      }
      const int64_t count = std::ranges::count_if(renamed, wanted);
      if (count <= most) continue;
      most = count;
      best = std::move(renamed);
    }
  }
  return best;
}

std::vector<std::string> names_from_transformers(std::string_view model_type,
                                                 std::span<const std::string> names) {
  const std::map<std::string_view, std::span<const Rows>> by_type = {
      {"vit", name_tables::transformers_vit},
      {"deit", name_tables::transformers_vit},
      {"convnext", name_tables::transformers_convnext},
      {"resnet", name_tables::transformers_resnet}};
  const std::string prefix = fmt::format("{}.", model_type);
  std::vector<std::string> renamed;
  for (const std::string& name : names) {
    const std::string_view own =
        std::string_view(name).substr(name.starts_with(prefix) ? prefix.size() : 0);
    renamed.push_back(translate(by_type.at(model_type), Naming::torchvision, own).value_or(name));
  }
  return renamed;
}

std::vector<std::string> names_of(Naming naming, std::span<const std::string> names) {
  for (const std::span<const Rows> table : tables) {
    std::vector<std::string> renamed;
    for (const std::string& name : names) {
      auto other = translate(table, naming, name);
      if (!other) break;
      renamed.push_back(std::move(*other));
    }
    if (renamed.size() == names.size()) return renamed;
  }
  return {names.begin(), names.end()};
}

}  // namespace whisker
