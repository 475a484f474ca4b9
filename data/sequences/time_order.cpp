#include "data/sequences/time_order.h"

#include "core/io/text.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace whisker {
namespace {

// "2023-01-31", "2023/01", "2023-01-31 08:00:00": texts of one shape sort as the times do.
bool is_date(std::string_view field) {
  constexpr std::string_view shape = "dddd-dd-dd";
  constexpr size_t least = 7;
  if (field.size() < least) return false;
  for (size_t i = 0; i < std::min(field.size(), shape.size()); ++i) {
    const bool digit = field[i] >= '0' && field[i] <= '9';
    const bool dash = field[i] == '-' || field[i] == '/';
    if (shape[i] == 'd' ? !digit : !dash) return false;
  }
  return true;
}

}  // namespace

std::string time_order_note(const RowFile& file, std::span<const size_t> columns) {
  for (size_t c = 0; file.rows.size() > 1 && c < file.rows.front().fields.size(); ++c) {
    if (std::ranges::find(columns, c) != columns.end()) continue;
    const auto date = [&](const CsvRow& row) -> const std::string& { return row.fields[c]; };
    const size_t length = date(file.rows.front()).size();
    if (!std::ranges::all_of(file.rows, [&](const CsvRow& row) {
          return is_date(date(row)) && date(row).size() == length;
        })) {
      continue;
    }
    int64_t older = 0, newer = 0;
    for (size_t i = 1; i < file.rows.size(); ++i) {
      older += date(file.rows[i]) < date(file.rows[i - 1]) ? 1 : 0;
      newer += date(file.rows[i]) > date(file.rows[i - 1]) ? 1 : 0;
    }
    if (older == 0) return "";
    const std::string_view remedy = "rows are read in the order of the file; sort it by time";
    if (newer == 0) {
      return fmt::format("{}: its {} rows run backward in time, from {} to {} (column {}): {}",
                         file.name, file.rows.size(), printable(date(file.rows.front())),
                         printable(date(file.rows.back())), c + 1, remedy);
    }
    return fmt::format("{}: {} of {} rows are older than the row before (column {}): {}", file.name,
                       older, file.rows.size(), c + 1, remedy);
  }
  return "";
}

}  // namespace whisker
