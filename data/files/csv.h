// Comma-separated values as RFC 4180 defines them: quoted fields may hold commas, quotes (doubled)
// and line breaks. Lines end with LF or CRLF; a byte order mark at the start is ignored.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct CsvRow {
  int line = 0;  ///< where the row begins, from 1
  std::vector<std::string> fields;
  bool stray_cr = false;  ///< see stray_cr_reason
};

/// Why a row is not used that has a CR where no quotes are.
inline constexpr std::string_view stray_cr_reason =
    "a CR (carriage return) stands within the line. Lines end with LF, CRLF or CR, all alike in a "
    "file; a CSV's field with a CR in it must be quoted";

/// Text as a row of a file has it: in quotes where it must be, and with ' before what a spreadsheet
/// would take for a formula (= + - @, tab, CR at the beginning); "-1" and other numbers are none.
std::string csv_field(std::string_view field);
/// The text that csv_field() was given, of a field as parse_csv() returns it.
std::string csv_text(std::string_view field);

/// Why a row is not used that has `got` fields, where the first has `expected`; `ends`, for more,
/// says how fields end in this file.
std::string field_count_reason(size_t expected, size_t got, std::string_view ends);
/// How the fields of a CSV file hold their separator.
std::string quoting_rule(char separator);

/// The separator of a CSV file: a comma; where the first line has none, the semicolon or tab in it.
char csv_separator(std::string_view text);

/// The column of the header that is called `column`: by its bytes or, where exactly one is, in
/// another case. Throws data, naming `file` and the columns' numbers, where several are.
std::optional<size_t> named_column(const CsvRow& header, std::string_view column,
                                   std::string_view file);

/// Throws data, naming `file` and the row's line, for a path that holds a NUL byte, where the
/// system would cut it.
void check_listed_path(const CsvRow& row, std::string_view path, std::string_view file);

/// All rows, empty lines left out. Throws data naming `name` and the line for a stray or missing
/// quote, a stray CR, or a row with another number of fields than the first.
std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name, char separator = ',');

/// Parses, but skips rows with another number of fields and calls `refuse` with line and reason. A
/// row with a stray CR and the right number of fields is marked.
using RefuseRow = std::function<void(int line, std::string reason)>;
std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name, const RefuseRow& refuse,
                              char separator = ',');

}  // namespace whisker
