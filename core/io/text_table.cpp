// Widths are code points: every cell we print is made of single-width characters.
#include "core/io/text_table.h"

#include "core/io/text.h"
#include "core/io/utf8.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace whisker {

std::vector<std::string> wrap_text(std::string_view text, size_t width, CutWords cut) {
  std::vector<std::string> lines;
  while (width > 0 && count_code_points(text) > width) {
    size_t fits = 0, punctuation = 0;
    for (size_t points = 0; points < width; ++points) {
      do {
        ++fits;
      } while (fits < text.size() && (static_cast<unsigned char>(text[fits]) & 0xC0) == 0x80);
      if (std::string_view(",._/").find(text[fits - 1]) != std::string_view::npos)
        punctuation = fits;
    }
    size_t end = text.rfind(' ', fits);
    if (end == std::string_view::npos || end == 0) {
      end = cut == CutWords::never ? text.find(' ', fits) : punctuation > 0 ? punctuation : fits;
    }
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    lines.emplace_back(line.substr(0, line.find_last_not_of(' ') + 1));
    text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
  }
  lines.emplace_back(text);
  return lines;
}

std::string wrapped_lines(std::string_view text, size_t width, std::string_view indent) {
  const size_t fits = width > indent.size() ? width - indent.size() : width;
  return fmt::format(
      "{}\n", fmt::join(wrap_text(text, fits, CutWords::longest), fmt::format("\n{}", indent)));
}

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

std::vector<size_t> TextTable::widths_within(size_t width) const {
  constexpr size_t least = 8;
  std::vector<size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], count_code_points(row[i]));
  }
  size_t total = 2 * (widths.size() - 1);
  for (const size_t one : widths) total += one;
  for (; width > 0 && total > width; --total) {
    size_t widest = widths.size();
    for (size_t i = 0; i < widths.size(); ++i) {
      if (right_[i] || widths[i] <= least) continue;
      if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == widths.size()) break;
    --widths[widest];
  }
  return widths;
}

std::string TextTable::str(std::string_view indent, size_t width) const {
  const size_t room = width > indent.size() ? width - indent.size() : width;
  const std::vector<size_t> widths = widths_within(room);
  std::string text;
  const auto end_line = [&] {
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::vector<std::vector<std::string>> cells;
    size_t height = 1;
    for (size_t i = 0; i < widths.size(); ++i) {
      cells.push_back(wrap_text(rows_[r][i], widths[i], CutWords::longest));
      height = std::max(height, cells[i].size());
    }
    for (size_t line = 0; line < height; ++line) {
      text += indent;
      for (size_t i = 0; i < widths.size(); ++i) {
        const std::string cell = line < cells[i].size() ? cells[i][line] : std::string();
        const std::string blanks(widths[i] - count_code_points(cell), ' ');
        if (i > 0) text += "  ";
        text += right_[i] ? blanks + cell : cell + blanks;
      }
      end_line();
    }
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
