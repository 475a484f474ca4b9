// Files of rows: comma-separated (RFC 4180), tab-separated (fields as they are, quotes included) or
// separated by runs of spaces. A row that does not fit is left out, with its place and the reason.
#pragma once

#include "data/csv.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// What is wrong with part of a file.
struct BadRow {
  std::string place;  ///< "file:line"
  std::string reason;
  int line = 0;  ///< from 1
};

struct RowFile {
  std::string name;  ///< for messages
  std::vector<CsvRow> rows;
  std::vector<BadRow> bad;

  std::string place(const CsvRow& row) const;
  void refuse(const CsvRow& row, std::string reason) {
    bad.push_back({place(row), std::move(reason), row.line});
  }
};

/// Reads `path`. Commas separate when its name ends in .csv, tabs when in .tsv; else whichever of
/// tab and comma the first line holds, or spaces. Rows have as many fields as the first; empty
/// lines are left out. Throws data for a file that cannot be read or holds no row.
RowFile read_rows(const std::filesystem::path& path);

/// A position in a row, from 0. `column` is a number from 1, or a name in `header`. Throws data,
/// naming `file` and the nearest name there is.
size_t find_column(const CsvRow& header, const std::string& column, const std::string& file);
/// Whether `column` is a number rather than a name.
bool is_column_number(std::string_view column);

/// Throws data when more than `max_bad` of `total` rows are bad, with the first reasons; at least
/// one may be unless `max_bad` is 0.
void check_bad_rows(const std::vector<BadRow>& bad, int64_t total, double max_bad);

}  // namespace whisker
