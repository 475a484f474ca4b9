#include "data/files/split_names.h"

#include "core/io/lower_ascii.h"

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

struct Word {
  std::string letters;  // in lower case
  size_t begin;         // in the name
};

// The words of a name without digits and punctuation: "train", "a" of Train_2A.
std::vector<Word> words_of(std::string_view name) {
  enum class Letter : uint8_t { none, lower, upper };
  std::vector<Word> words;
  Letter before = Letter::none;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool lower = (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
    const Letter now = lower ? Letter::lower : c >= 'A' && c <= 'Z' ? Letter::upper : Letter::none;
    if (now != Letter::none) {
      const bool begins = before == Letter::none || (before == Letter::lower && !lower);
      if (begins) words.push_back({.letters = "", .begin = i});
      words.back().letters += lower_ascii(c);
    }
    before = now;
  }
  return words;
}

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const Word& word : words_of(name)) letters += word.letters;
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

// Without the blanks and marks at its ends.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view marks = " _-.,+()[]";
  const size_t begin = std::min(text.find_first_not_of(marks), text.size());
  return text.substr(begin, text.find_last_not_of(marks) + 1 - begin);
}

}  // namespace

Split split_of_name(std::string_view name) {
  return split_in(letters_of(name));
}

SplitAndRest split_and_rest(std::string_view name) {
  SplitAndRest found{.pattern = std::string(name)};
  size_t begin = 0, end = 0;  // of the split's word
  bool behind = false;        // whether others stand behind it
  for (const Word& word : words_of(name)) {
    const Split split = split_in(word.letters);
    if (found.split == Split::none && split != Split::none) {
      found.split = split;
      begin = word.begin;
      end = begin + word.letters.size();
    } else if (!is_filler(word.letters)) {
      found.rest += ' ';
      found.rest += word.letters;
      if (word.letters.size() > 1 && word.letters.ends_with('s')) found.rest.pop_back();
      behind = found.split != Split::none;
    }
  }
  const std::string_view label = trimmed(behind ? name.substr(end) : name.substr(0, begin));
  if (label.empty()) return found;
  found.label = label;
  found.pattern.replace(static_cast<size_t>(label.data() - name.data()), label.size(), "{label}");
  return found;
}

bool is_fold(std::string_view name) {
  const bool numbered = name.find_first_of("0123456789") != std::string_view::npos;
  return numbered && is_filler(letters_of(name)) &&
         std::ranges::any_of(words_of(name), [](const Word& word) {
           const std::string& letters = word.letters;
           return letters == "fold" || letters == "kfold" || letters == "split" || letters == "cv";
         });
}

}  // namespace whisker
