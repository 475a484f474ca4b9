// Files of rows: comma-separated (RFC 4180), tab-separated (fields as they are, quotes included,
// unless all open and close a field) or separated by runs of spaces. A row that does not fit
// is skipped and reported with its position and the reason.
#pragma once

#include "data/files/csv.h"
#include "data/files/decode_rules.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

/// An unusable row of a file.
struct BadRow {
  std::string place;  ///< "file:line"
  std::string reason;
  int line = 0;  ///< from 1
};

/// Whether the first row of a table names its columns.
enum class Header : uint8_t { automatic, present, absent };

struct RowFile {
  std::string name;  ///< for messages
  std::vector<CsvRow> rows;
  std::vector<BadRow> bad;
  int64_t count = 0;  ///< of rows, also those with another number of fields, without a header
  std::vector<std::string> notes = {};  ///< what was assumed
  std::vector<std::string> names = {};  ///< of the columns, where the first row held them
  std::vector<int> repeated = {};       ///< lines that held the names again
  int rules = newest_data_rules;        ///< see Note [Data rules]
  std::string field_ends = {};          ///< how fields end, for messages
  char separator = ',';

  /// Removes the first row, which is a header.
  void drop_header() {
    names = std::move(rows.front().fields);
    rows.erase(rows.begin());
    --count;
  }
  std::string place(const CsvRow& row) const;
  void refuse(const CsvRow& row, std::string reason) {
    bad.push_back({place(row), std::move(reason), row.line});
  }
};

/// Reads `path` (data/files/text_file.h). The separator is a comma for .csv (a semicolon or tab
/// where the first line has no comma), a tab for .tsv, else the tab or comma in the first line, or
/// spaces. Every row has as many fields as the first; empty lines are skipped.
/// Throws data for a file that cannot be read or has no row, or a stray CR in the first.
RowFile read_rows(const std::filesystem::path& path, int rules = newest_data_rules);

/// Why `cell` may be several fields, which end at `separator` rather than the one that was used,
/// and the remedy.
std::string separator_reason(const RowFile& file, std::string_view cell, char separator);

/// A position in a row, from 0. `column` is a number from 1, or a name in the first row: a name in
/// another case is noted. Throws data, naming the nearest name, and where two columns have it.
size_t find_column(RowFile& file, const std::string& column);
/// Whether `column` is a number rather than a name.
bool is_column_number(std::string_view column);
/// The position, from 0, of a column that is a number; npos where no row has so many.
size_t column_position(std::string_view column);

/// Throws data, with the first reasons, when more than the fraction `max_bad` of `total` rows is
/// bad; one may be unless it is 0.
void check_bad_rows(const std::vector<BadRow>& bad, int64_t total, double max_bad);

}  // namespace whisker
