#include "data/sequences/several_series.h"

#include "core/io/text.h"
#include "data/files/split_names.h"
#include "data/sequences/scaling.h"

#include <algorithm>
#include <ctime>
#include <set>

#include <fmt/format.h>

namespace whisker {
namespace {

// Whether a cell may name a series: no number, date, month, day of the week or split.
bool may_name_series(const std::string& cell) {
  if (cell.empty() || (cell[0] >= '0' && cell[0] <= '9') || number_of(cell)) return false;
  for (const char* const form : {" %b", " %a"}) {
    std::tm time = {};
    const char* const rest = ::strptime(cell.c_str(), form, &time);
    if (rest && (*rest < 'a' || *rest > 'z')) return false;
  }
  return split_of_name(cell) == Split::none;
}

}  // namespace

std::vector<size_t> block_starts(const RowFile& file, size_t column) {
  std::set<std::string_view> seen = {file.rows.front().fields[column]};
  std::vector<size_t> starts;
  for (size_t row = 1; row < file.rows.size(); ++row) {
    const std::string& value = file.rows[row].fields[column];
    if (value == file.rows[row - 1].fields[column]) continue;
    if (!seen.insert(value).second) return {};
    starts.push_back(row);
  }
  return starts;
}

std::string blocks_note(const RowFile& file, size_t column, size_t start) {
  return fmt::format("{}: column {}{} holds {} before line {} and {} from there, {}", file.name,
                     column + 1,
                     file.names.empty() ? "" : fmt::format(" ({})", excerpt(file.names[column])),
                     excerpt(file.rows[start - 1].fields[column]), file.rows[start].line,
                     excerpt(file.rows[start].fields[column]), several_series);
}

std::string named_blocks_note(const RowFile& file, std::span<const size_t> beside) {
  constexpr size_t fewest_rows = 8;  // of a series
  for (const size_t column : beside) {
    const std::vector<size_t> starts = block_starts(file, column);
    if (starts.empty() || (starts.size() + 1) * fewest_rows > file.rows.size()) continue;
    const bool names = may_name_series(file.rows[0].fields[column]) &&
                       std::ranges::all_of(starts, [&](size_t row) {
                         return may_name_series(file.rows[row].fields[column]);
                       });
    if (names) return blocks_note(file, column, starts.front());
  }
  return "";
}

}  // namespace whisker
