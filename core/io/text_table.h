// A text table: columns padded to their widest cell, a rule under the heading. Cells wrap where the
// table is wider than the terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Which words wrap_text() cuts: none, or those that are longer than a line.
enum class CutWords : bool { never, longest };

/// `text` in lines of at most `width` code points, which end at blanks. A longer word is cut behind
/// its last comma, dot, underscore or slash that fits, or has a line of its own.
std::vector<std::string> wrap_text(std::string_view text, size_t width, CutWords cut);
/// `text` in lines of at most `width` code points (0: one line), each with its end; those behind the
/// first begin with `indent`.
std::string wrapped_lines(std::string_view text, size_t width, std::string_view indent = "");

/// Foreign text in cells and headings comes out escaped.
class TextTable {
 public:
  /// Headings; one that starts with '>' heads a column aligned to the right.
  explicit TextTable(std::vector<std::string> headings);

  /// Missing cells are empty.
  void add(std::vector<std::string> cells);
  /// Lines that end in a newline, without trailing blanks; `indent` is put before each. The widest
  /// columns of text wrap until the lines fit into `width`; 0: no limit.
  std::string str(std::string_view indent = "", size_t width = 0) const;

 private:
  std::vector<size_t> widths_within(size_t width) const;

  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

}  // namespace whisker
