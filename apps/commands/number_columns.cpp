#include "apps/commands/number_columns.h"

#include "core/error.h"
#include "core/work_progress.h"
#include "data/files/csv.h"

namespace whisker {
namespace {

// The first row with its end: a line break outside of quotes.
std::string_view first_row(std::string_view csv) {
  bool quoted = false;
  for (size_t i = 0; i < csv.size(); ++i) {
    if (csv[i] == '"') quoted = !quoted;
    if (csv[i] == '\n' && !quoted) return csv.substr(0, i + 1);
  }
  return csv;
}

// Rows may be many gigabytes: their fields are not taken apart.
bool is_row(std::string_view row, size_t texts, size_t columns) {
  constexpr std::string_view of_numbers = "0123456789+-.einfa";
  if (!row.ends_with('\n')) return false;
  row.remove_suffix(1);
  size_t commas = 0;
  bool quoted = false;
  for (const char c : row) {
    if (commas < texts && c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == ',') {
      ++commas;
    } else if (commas >= texts && of_numbers.find(c) == std::string_view::npos) {
      return false;
    }
  }
  return !quoted && commas + 1 == columns;
}

}  // namespace

std::vector<std::string> number_columns(std::string_view csv, size_t texts) {
  if (!csv.starts_with("path,")) return {};  // nor is more of it read
  const std::string_view header = first_row(csv);
  if (!header.ends_with('\n')) return {};
  std::vector<std::string> columns;
  try {
    const std::vector<CsvRow> rows = parse_csv(header, "header");
    if (rows.size() == 1) columns = rows[0].fields;
  } catch (const Error&) {
    return {};
  }
  for (csv.remove_prefix(header.size()); !csv.empty();) {
    const std::string_view row = first_row(csv);
    if (!is_row(row, texts, columns.size())) return {};
    csv.remove_prefix(row.size());
    count_progress();
  }
  return columns;
}

}  // namespace whisker
