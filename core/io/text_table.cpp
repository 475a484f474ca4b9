// Widths are code points: every cell we print is made of single-width characters.
#include "core/io/text_table.h"

#include "core/io/text.h"
#include "core/io/utf8.h"

#include <algorithm>

namespace whisker {

TextTable::TextTable(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
    heading = printable(heading);
  }
  rows_.push_back(std::move(headings));
}

void TextTable::add(std::vector<std::string> cells) {
  cells.resize(right_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string TextTable::str(std::string_view indent) const {
  std::vector<size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], count_code_points(row[i]));
  }
  std::string text;
  const auto end_line = [&] {
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  for (size_t r = 0; r < rows_.size(); ++r) {
    text += indent;
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string& cell = rows_[r][i];
      const std::string blanks(widths[i] - count_code_points(cell), ' ');
      if (i > 0) text += "  ";
      text += right_[i] ? blanks + cell : cell + blanks;
    }
    end_line();
    if (r > 0) continue;
    text += indent;
    for (size_t i = 0; i < widths.size(); ++i) {
      text += (i > 0 ? "  " : "") + std::string(widths[i], '-');
    }
    end_line();
  }
  return text;
}

}  // namespace whisker
