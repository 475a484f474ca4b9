#include "data/sequences/several_series.h"

#include "core/io/text.h"
#include "core/io/unicode.h"
#include "data/files/split_names.h"
#include "data/sequences/scaling.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <set>
#include <string_view>

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

// Whether the name of a column says that it holds numbers of series.
bool numbers_series(const RowFile& file, size_t column) {
  constexpr std::array<std::string_view, 17> words = {
      "unit",    "unit_number", "engine",  "machine",    "device",   "sensor_id",
      "station", "station_id",  "store",   "store_id",   "item",     "shop",
      "meter",   "series",      "unit_id", "machine_id", "device_id"};
  const std::string name = file.names.empty() ? "" : to_small_letters(file.names[column]);
  return std::ranges::find(words, name) != words.end();
}

// Whether a column counts the rows of each block anew, and blocks are of other lengths than those
// of a calendar, whose years have equally many months, and months nearly equally many days.
bool counts_blocks(const RowFile& file, size_t column, const std::vector<size_t>& starts) {
  const auto value = [&](size_t row) { return number_of(file.rows[row].fields[column]); };
  const std::optional<double> first = value(0);
  size_t next = 0, shortest = starts[0], longest = starts[0];  // of all blocks but the last
  for (size_t row = 0; row < file.rows.size(); ++row) {
    const std::optional<double> count = value(row);
    const bool begins = row == 0 || (next < starts.size() && row == starts[next]);
    if (!count || *count != (begins ? *first : *value(row - 1) + 1)) return false;
    if (row == 0 || !begins) continue;
    const size_t length = row - (next > 0 ? starts[next - 1] : 0);
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
    ++next;
  }
  return 10 * (longest - shortest) > longest;
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
    const bool numbers =
        numbers_series(file, column) || std::ranges::any_of(beside, [&](size_t other) {
          return other != column && counts_blocks(file, other, starts);
        });
    if (names || numbers) return blocks_note(file, column, starts.front());
  }
  return "";
}

}  // namespace whisker
