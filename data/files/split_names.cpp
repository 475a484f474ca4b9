#include "data/files/split_names.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace whisker {
namespace {

constexpr std::array<std::pair<std::string_view, Split>, 14> split_words = {
    {{"train", Split::train},
     {"training", Split::train},
     {"trainval", Split::train},
     {"trn", Split::train},
     {"val", Split::val},
     {"valid", Split::val},
     {"validation", Split::val},
     {"vld", Split::val},
     {"dev", Split::val},
     {"eval", Split::val},
     {"evaluation", Split::val},
     {"test", Split::test},
     {"testing", Split::test},
     {"tst", Split::test}}};
constexpr auto filler_words = std::to_array<std::string_view>(
    {"data",   "set",  "sets",  "seg",    "image", "images",  "img",     "imgs",    "photo",
     "photos", "text", "texts", "txt",    "file",  "files",   "folder",  "resized", "cropped",
     "raw",    "new",  "small", "full",   "final", "x",       "v",       "split",   "fold",
     "kfold",  "cv",   "part",  "subset", "batch", "subject", "patient", "session"});

// The words of a name in lower case, without digits and punctuation: "train", "a" of Train_2A.
std::vector<std::string> words_of(std::string_view name) {
  enum class Letter : uint8_t { none, lower, upper };
  std::vector<std::string> words;
  Letter before = Letter::none;
  for (const char c : name) {
    const bool lower = (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
    const Letter now = lower ? Letter::lower : c >= 'A' && c <= 'Z' ? Letter::upper : Letter::none;
    if (now != Letter::none) {
      const bool begins = before == Letter::none || (before == Letter::lower && !lower);
      if (begins) words.emplace_back();
      words.back() += lower ? c : static_cast<char>(c - 'A' + 'a');
    }
    before = now;
  }
  return words;
}

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const std::string& word : words_of(name)) letters += word;
  return letters;
}

// The split of letters that are one split's word among filler words, or filler words alone behind
// the word of `found`.
Split split_in(std::string_view letters, Split found = Split::none) {
  if (letters.empty()) return found;
  const auto behind = [&](std::string_view word, Split split) {
    return letters.starts_with(word) ? split_in(letters.substr(word.size()), split) : Split::none;
  };
  if (found == Split::none) {
    for (const auto& [word, split] : split_words) {
      if (behind(word, split) != Split::none) return split;
    }
  }
  for (const std::string_view word : filler_words) {
    if (const Split split = behind(word, found); split != Split::none) return split;
  }
  return Split::none;
}

bool is_filler(std::string_view letters) {
  return split_in(letters, Split::train) != Split::none;
}

}  // namespace

Split split_of_name(std::string_view name) {
  return split_in(letters_of(name));
}

SplitAndRest split_and_rest(std::string_view name) {
  SplitAndRest found;
  for (const std::string& word : words_of(name)) {
    const Split split = split_in(word);
    if (found.split == Split::none && split != Split::none) {
      found.split = split;
    } else if (!is_filler(word)) {
      found.rest += ' ';
      found.rest += word;
    }
  }
  return found;
}

bool is_numbered_part(std::string_view name) {
  const std::string letters = letters_of(name);
  if (letters.empty())
    return name.size() == 4 && (name.starts_with("19") || name.starts_with("20"));
  return is_filler(letters) && name.find_first_of("0123456789") != std::string_view::npos;
}

bool is_fold(std::string_view name) {
  return is_numbered_part(name) && std::ranges::any_of(words_of(name), [](const auto& word) {
           return word == "fold" || word == "kfold" || word == "split" || word == "cv";
         });
}

}  // namespace whisker
