#include "data/sequences/table_checks.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/files/check_reading.h"
#include "data/files/file_walk.h"
#include "data/sequences/scaling.h"
#include "data/sequences/table_header.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace whisker {
namespace {

enum class Point : uint8_t { hundreds, thousands, decimal, other };

// An integer from 100 to 999, or what a German table may mean by the points: 1.021 is 1021.
Point point_of(std::string_view cell) {
  while (cell.starts_with(' ')) cell.remove_prefix(1);
  while (cell.ends_with(' ')) cell.remove_suffix(1);
  if (cell.starts_with('-') || cell.starts_with('+')) cell.remove_prefix(1);
  if (!number_of(cell)) return Point::other;
  const size_t point = cell.find('.');
  const std::string_view whole = cell.substr(0, point);
  const auto is_digits = [](std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (!is_digits(whole) || whole.empty() || whole.size() > 3) return Point::decimal;
  if (point == cell.npos) {
    return whole.size() == 3 && whole[0] != '0' ? Point::hundreds : Point::other;
  }
  const std::string_view rest = cell.substr(point + 1);
  return rest.size() == 3 && is_digits(rest) && whole[0] != '0' ? Point::thousands : Point::decimal;
}

// Whether a column is a header's by its kind: a name above numbers or dates, or nothing above dates
// in the first column, as pandas writes its index. Rows that repeat the first do not count.
bool names_other_kind(const RowFile& file, size_t column) {
  const auto begins_with_digit = [](const std::string& cell) {
    return !cell.empty() && cell[0] >= '0' && cell[0] <= '9';
  };
  const CsvRow& header = file.rows.front();
  const std::string& first = header.fields[column];
  const bool index = column == 0 && first.empty();
  if (begins_with_digit(first) || !(index || is_column_name(first))) return false;
  bool found = false;
  for (const CsvRow& row : file.rows) {
    if (row.fields == header.fields) continue;
    const std::string& cell = row.fields[column];
    if (!(number_of(cell) ? !index : begins_with_digit(cell))) return false;
    found = true;
  }
  return found;
}

}  // namespace

bool unread_column_has_name(const RowFile& file, std::span<const size_t> read) {
  for (size_t i = 0; file.rules > 2 && i < file.rows.front().fields.size(); ++i) {
    if (std::ranges::find(read, i) == read.end() && names_other_kind(file, i)) return true;
  }
  return false;
}

void drop_headers(RowFile& file) {
  file.drop_header();
  if (file.rules < 3 || std::ranges::none_of(file.names, is_column_name)) return;
  std::vector<int>& lines = file.repeated;
  for (const CsvRow& row : file.rows) {
    if (row.fields == file.names) lines.push_back(row.line);
  }
  if (lines.empty()) return;
  std::erase_if(file.rows, [&](const CsvRow& row) { return row.fields == file.names; });
  file.count -= std::ssize(lines);
  file.notes.push_back(
      fmt::format("{}: {} again the names of the columns and {} not read (the first is line {}; "
                  "data.header=false, or --header false of evaluate: an example as others)",
                  file.name, counted(std::ssize(lines), "row holds", "rows hold"),
                  lines.size() == 1 ? "is" : "are", lines.front()));
  if (file.rows.empty()) fail(ErrorKind::data, "{}: expected rows below the names", file.name);
}

void refuse_numbers_as_names(RowFile& file, std::span<const std::string> keys) {
  if (std::ranges::none_of(file.names, is_column_name)) return;
  check_reading(file.rules, file.notes, [&] {
    for (const std::string& key : keys) {
      const auto found = std::ranges::find(file.names, key);
      if (!is_column_number(key) || found == file.names.end()) continue;
      const size_t position = column_position(key);
      if (position >= file.names.size() || file.names[position] == key) continue;
      fail(ErrorKind::data,
           "{}: {} may be column {}, which is called {}, or column {}, which is called '{}'. "
           "Numbers "
           "in keys count columns: rename the second one in the first row.",
           file.name, key, key, excerpt(file.names[position]), found - file.names.begin() + 1, key);
    }
  });
}

void refuse_thousands(RowFile& file, std::span<const size_t> columns) {
  if (file.separator != ';') return;
  const auto check = [&](size_t column) {
    const CsvRow* thousands = nullptr;
    bool hundreds = false;
    for (const CsvRow& row : file.rows) {
      const Point point = point_of(row.fields[column]);
      if (point == Point::decimal) return;
      hundreds = hundreds || point == Point::hundreds;
      if (point == Point::thousands && !thousands) thousands = &row;
    }
    if (!hundreds || !thousands) return;
    const std::string& cell = thousands->fields[column];
    std::string without = cell;
    std::erase(without, '.');
    fail(ErrorKind::data,
         "{}: {} in column {} may be {}, with a point before thousands, or a number with three "
         "decimals: all points of the column have three digits behind them, and other cells are "
         "integers from 100 to 999. Write {} or {}0.",
         file.place(*thousands), excerpt(cell), column + 1, excerpt(without), printable(without),
         printable(cell));
  };
  check_reading(file.rules, file.notes, [&] { std::ranges::for_each(columns, check); });
}

void refuse_other_separator(RowFile& file, size_t label) {
  std::set<std::string_view> labels;
  for (const CsvRow& row : file.rows) labels.insert(row.fields[label]);
  if (file.rows.size() < 2 || 2 * labels.size() <= file.rows.size()) return;
  for (const char separator : {';', '\t', '|'}) {
    const auto count = [&](const CsvRow& row) {
      return std::ranges::count(row.fields[label], separator);
    };
    const int64_t expected = count(file.rows.front());
    if (expected == 0 ||
        std::ranges::any_of(file.rows, [&](const CsvRow& row) { return count(row) != expected; })) {
      continue;
    }
    check_reading(file.rules, file.notes, [&] {
      fail(ErrorKind::data, "{}: {}", file.place(file.rows.front()),
           separator_reason(file, file.rows.front().fields[label], separator));
    });
  }
}

}  // namespace whisker
