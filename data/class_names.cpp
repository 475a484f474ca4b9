#include "data/class_names.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "core/io/utf8.h"

#include <algorithm>
#include <array>
#include <charconv>
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

// The number that a name writes, as its shortest text; another name as it is.
std::string number_text(std::string_view name) {
  constexpr size_t exact_digits = 15;
  double number = 0;
  const std::string_view digits = name.substr(name.starts_with('+') || name.starts_with('-'));
  const bool begins =
      !digits.empty() && (digits[0] == '.' || (digits[0] >= '0' && digits[0] <= '9'));
  const char* const end = name.data() + name.size();
  const auto [stop, error] =
      std::from_chars(name.data() + (name.starts_with('+') ? 1 : 0), end, number);
  const bool whole = begins && error == std::errc() && stop == end && name.size() <= exact_digits;
  return whole ? fmt::format("{}", number + 0.0) : std::string(name);
}

// Without blanks, hyphens, underscores, dots and apostrophes within a name, but between digits.
std::string without_punctuation(std::string_view name) {
  const auto is_digit = [&](size_t i) { return name[i] >= '0' && name[i] <= '9'; };
  constexpr std::string_view marks = " -_.'";
  const size_t begin = name.find_first_not_of(marks), last = name.find_last_not_of(marks);
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool within = marks.find(name[i]) != std::string_view::npos && i > begin && i < last;
    if (!within ||
        (is_digit(name.find_last_not_of(marks, i)) && is_digit(name.find_first_not_of(marks, i)))) {
      text += name[i];
    }
  }
  return text;
}

// Whether `name` is several of the classes, joined as labels of several classes are.
bool joins_classes(std::span<const std::string> classes, std::string_view name) {
  for (const char mark : {'|', ',', ';', '/', '+', '&'}) {
    if (name.find(mark) == std::string_view::npos) continue;
    bool all = true;
    for (size_t begin = 0; all && begin <= name.size();) {
      const size_t end = std::min(name.find(mark, begin), name.size());
      std::string_view part = name.substr(begin, end - begin);
      while (part.starts_with(' ')) part.remove_prefix(1);
      while (part.ends_with(' ')) part.remove_suffix(1);
      all = std::ranges::find(classes, part) != classes.end();
      begin = end + 1;
    }
    if (all) return true;
  }
  return false;
}

constexpr std::array<std::string_view, 5> missing_values = {"na", "n/a", "nan", "null", "<na>"};

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
       [](std::string_view name) { return to_small_letters(without_blanks(to_nfc(name))); }},
      {"the way a number is written", number_text},
      {"punctuation", [](std::string_view name) { return without_punctuation(to_nfc(name)); }},
      {"case, blanks and punctuation",
       [](std::string_view name) { return to_small_letters(without_punctuation(to_nfc(name))); }}};
  constexpr size_t shown = 8;
  std::vector<std::string> found;
  std::vector<bool> told(classes.size());
  size_t more = 0;
  const auto add = [&](std::string text) {
    if (found.size() < shown) {
      found.push_back(std::move(text));
    } else {
      ++more;
    }
  };
  for (const auto& [difference, fold] : kinds) {
    std::map<std::string, size_t> first;
    for (size_t i = 0; i < classes.size(); ++i) {
      const auto [other, is_new] = first.emplace(fold(classes[i]), i);
      if (is_new || told[i]) continue;
      told[i] = true;
      add(fmt::format("classes {} and {} differ in {} alone: one class or two?",
                      excerpt(classes[other->second]), excerpt(classes[i]), difference));
    }
  }
  for (const std::string& name : classes) {
    if (joins_classes(classes, name)) {
      add(fmt::format(
          "class {} joins names of other classes, but is a class of its own: an example "
          "has one class",
          excerpt(name)));
    } else if (std::ranges::count(missing_values, to_small_letters(name)) > 0) {
      add(fmt::format(
          "class {} is a class like others: where it stands for a missing label, remove "
          "its examples",
          excerpt(name)));
    }
  }
  if (more > 0) {
    found.push_back(
        counted(static_cast<int64_t>(more), "more class is doubtful", "more classes are doubtful"));
  }
  return found;
}

}  // namespace whisker
