// Comma-separated values as RFC 4180 defines them: quoted fields may hold commas, quotes (doubled)
// and line breaks. Lines end with LF or CRLF; a byte order mark at the start is ignored.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct CsvRow {
  int line = 0;  ///< where the row begins, from 1
  std::vector<std::string> fields;
};

/// `field` as a row of a file has it: in quotes where it must be.
std::string csv_field(std::string_view field);

/// All rows, empty lines left out. Throws data naming `name` and the line for a stray or missing
/// quote, or a row with another number of fields than the first.
std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name);

/// The same, but skips rows with another number of fields and calls `refuse` with line and reason.
using RefuseRow = std::function<void(int line, std::string reason)>;
std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name,
                              const RefuseRow& refuse);

}  // namespace whisker
