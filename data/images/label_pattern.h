// Labels from file names, by a small pattern language with bounded run time, unlike a regex:
//   {label}  the class, one or more bytes, as few as the rest allows          (exactly once)
//   *        any bytes, also none             ?  one byte             #  one or more digits
// None of them crosses a '/'; everything else stands for itself. A pattern without '/' is matched
// against the file's name, one with '/' against its path below the data folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

class LabelPattern {
 public:
  /// Throws usage unless the pattern holds {label} once and no other braces.
  explicit LabelPattern(std::string_view pattern);
  /// The label in `path`, or nothing when the pattern does not match. Time and memory are bounded
  /// by the product of both lengths.
  std::optional<std::string> match(std::string_view path) const;
  /// The longest label that fits, for a path that matches: other than match() where the pattern
  /// can be read in several ways.
  std::string longest(std::string_view path) const;

 private:
  enum class Kind { literal, label, any, one, digits };
  struct Part {
    Kind kind;
    char letter;  // for literal
  };
  std::optional<std::string> find(std::string_view path, bool longest) const;

  std::vector<Part> parts_;
  bool whole_path_;
};

}  // namespace whisker
