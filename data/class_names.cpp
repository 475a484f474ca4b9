#include "data/class_names.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "core/io/utf8.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace whisker {
namespace {

std::string without_blanks(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const size_t length = utf8_sequence_length(name);
    const std::string_view one = name.substr(0, std::max<size_t>(length, 1));
    const bool blank = length > 0 && character_class(code_point(one)) == CharacterClass::space;
    if (!blank) text += one;
    name.remove_prefix(one.size());
  }
  return text;
}

}  // namespace

std::optional<int64_t> class_number(std::span<const std::string> classes, std::string_view name) {
  const NameMatch match = find_name(classes, name);
  if (match.several) {
    fail(ErrorKind::data,
         "class {}: two classes have this name in Unicode's normal form C, and none its bytes. "
         "Rename one of them.",
         excerpt(name));
  }
  if (!match.index) return std::nullopt;
  const auto found = classes.begin() + static_cast<std::ptrdiff_t>(*match.index);
  if (std::find(found + 1, classes.end(), *found) != classes.end()) {
    fail(ErrorKind::checkpoint,
         "class {}: two classes of the weights file have this name, so that no example can be "
         "labelled by it. Rename one of them in the file's metadata, or leave these examples out.",
         excerpt(name));
  }
  return static_cast<int64_t>(*match.index);
}

std::vector<std::string> names_not_in(std::span<const std::string> names,
                                      std::span<const std::string> classes) {
  std::vector<std::string> others;
  std::ranges::copy_if(names, std::back_inserter(others), [&](const std::string& name) {
    return std::ranges::find(classes, name) == classes.end();
  });
  return others;
}

void NormalisedNames::add(std::string_view name, std::string_view known) {
  if (name == known) return;
  if (count_++ == 0) first_ = name;
}

std::string NormalisedNames::note(std::string_view one, std::string_view several) const {
  if (count_ == 0) return "";
  return fmt::format(
      "{} match{} after Unicode's normal form C (NFC), not byte for byte, such as {}",
      counted(count_, one, several), count_ == 1 ? "es" : "", excerpt(first_));
}

std::vector<std::string> similar_classes(std::span<const std::string> classes) {
  // From the smallest difference on, so that a pair is told once, with it alone.
  using Fold = std::string (*)(std::string_view);
  const std::pair<const char*, Fold> kinds[] = {
      {"Unicode's normal form", [](std::string_view name) { return to_nfc(name); }},
      {"blanks", [](std::string_view name) { return without_blanks(to_nfc(name)); }},
      {"case", [](std::string_view name) { return to_small_letters(to_nfc(name)); }},
      {"case and blanks",
       [](std::string_view name) { return to_small_letters(without_blanks(to_nfc(name))); }}};
  constexpr size_t shown = 8;
  std::vector<std::string> found;
  std::vector<bool> told(classes.size());
  size_t more = 0;
  for (const auto& [difference, fold] : kinds) {
    std::map<std::string, size_t> first;
    for (size_t i = 0; i < classes.size(); ++i) {
      const auto [other, is_new] = first.emplace(fold(classes[i]), i);
      if (is_new || told[i]) continue;
      told[i] = true;
      if (found.size() == shown) {
        ++more;
        continue;
      }
      found.push_back(fmt::format("classes {} and {} differ in {} alone: one class or two?",
                                  excerpt(classes[other->second]), excerpt(classes[i]),
                                  difference));
    }
  }
  if (more > 0) {
    found.push_back(counted(static_cast<int64_t>(more), "more class differs so little",
                            "more classes differ so little"));
  }
  return found;
}

}  // namespace whisker
