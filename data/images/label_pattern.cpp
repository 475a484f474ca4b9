// Matching by a table of "parts from i on match the text from j on", filled from the end.
#include "data/images/label_pattern.h"

#include "core/error.h"

namespace whisker {
namespace {

constexpr std::string_view label_mark = "{label}";
constexpr size_t max_length = 4096;  // PATH_MAX

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

LabelPattern::LabelPattern(std::string_view pattern)
    : whole_path_(pattern.find('/') != std::string_view::npos) {
  const auto refuse = [&](const char* reason) {
    fail(ErrorKind::usage,
         "data.label_pattern: '{}' {}. Write {{label}} once, * for anything, ? for one byte, # for "
         "digits: '{{label}}.*.jpg' reads cat from cat.0.jpg.",
         pattern, reason);
  };
  if (pattern.size() > max_length) refuse("is longer than 4096 characters");
  int labels = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (pattern.substr(i).starts_with(label_mark)) {
      parts_.push_back({Kind::label, 0});
      ++labels;
      i += label_mark.size() - 1;
    } else if (c == '{' || c == '}') {
      refuse("holds braces other than {label}");
    } else {
      parts_.push_back({c == '*'   ? Kind::any
                        : c == '?' ? Kind::one
                        : c == '#' ? Kind::digits
                                   : Kind::literal,
                        c});
    }
  }
  if (labels != 1) refuse("does not hold {label} exactly once");
}

std::optional<std::string> LabelPattern::match(std::string_view path) const {
  return find(path, false);
}

std::string LabelPattern::longest(std::string_view path) const {
  return find(path, true).value();
}

std::optional<std::string> LabelPattern::find(std::string_view path, bool longest) const {
  std::string_view text = path;
  if (!whole_path_) text.remove_prefix(text.rfind('/') + 1);
  if (text.size() > max_length) return std::nullopt;
  // fits[i][j]: parts i.. match text j..; a repeated part either takes one more character or ends.
  const size_t columns = text.size() + 1;
  std::vector<bool> fits((parts_.size() + 1) * columns);
  fits.back() = true;
  for (size_t i = parts_.size(); i-- > 0;) {
    for (size_t j = columns; j-- > 0;) {
      const auto next_part = [&](size_t at) {
        return at < columns && fits[(i + 1) * columns + at];
      };
      const auto same_part = [&](size_t at) { return at < columns && fits[i * columns + at]; };
      const bool inside = j < text.size() && text[j] != '/';
      bool fit = false;
      switch (parts_[i].kind) {
        case Kind::literal:
          fit = j < text.size() && text[j] == parts_[i].letter && next_part(j + 1);
          break;
        case Kind::one:
          fit = inside && next_part(j + 1);
          break;
        case Kind::any:
          fit = next_part(j) || (inside && same_part(j + 1));
          break;
        case Kind::digits:
          fit = inside && is_digit(text[j]) && (next_part(j + 1) || same_part(j + 1));
          break;
        case Kind::label:
          fit = inside && (next_part(j + 1) || same_part(j + 1));
          break;
      }
      fits[i * columns + j] = fit;
    }
  }
  if (!fits[0]) return std::nullopt;
  // Walk the table, every repeated part as short as it can be, until the label has been read; from
  // its begin, at a '/' or the end at last, it may go on.
  size_t j = 0;
  for (size_t i = 0;; ++i) {
    const Kind kind = parts_[i].kind;
    const size_t begin = j;
    if (kind != Kind::any) ++j;
    if (kind != Kind::literal && kind != Kind::one) {
      while (!fits[(i + 1) * columns + j]) ++j;
    }
    if (kind != Kind::label) continue;
    for (size_t end = j; longest && end < columns && text.substr(begin, end - begin).find('/') == std::string_view::npos; ++end) {
      if (fits[(i + 1) * columns + end]) j = end;
    }
    return std::string(text.substr(begin, j - begin));
  }
}

}  // namespace whisker
