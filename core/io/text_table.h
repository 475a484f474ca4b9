// A text table: columns padded to their widest cell, a rule under the heading.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Foreign text in cells and headings comes out escaped.
class TextTable {
 public:
  /// Headings; one that starts with '>' heads a column aligned to the right.
  explicit TextTable(std::vector<std::string> headings);

  /// Missing cells are empty.
  void add(std::vector<std::string> cells);
  /// Lines that end in a newline, without trailing blanks; `indent` is put before each.
  std::string str(std::string_view indent = "") const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

}  // namespace whisker
