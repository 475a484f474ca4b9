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

/// Text as a row of a file has it: in quotes where it must be, and with ' before what a spreadsheet
/// would take for a formula (= + - @, tab, CR at the beginning). Not for numbers.
std::string csv_field(std::string_view field);
/// The text that csv_field() was given, of a field as parse_csv() returns it.
std::string csv_text(std::string_view field);

/// The separator of a CSV file: a comma; where the first line has none, the semicolon or tab in it.
char csv_separator(std::string_view text);

/// All rows, empty lines left out. Throws data naming `name` and the line for a stray or missing
/// quote, or a row with another number of fields than the first.
std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name, char separator = ',');

/// The same, but skips rows with another number of fields and calls `refuse` with line and reason.
using RefuseRow = std::function<void(int line, std::string reason)>;
std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name, const RefuseRow& refuse,
                              char separator = ',');

}  // namespace whisker
