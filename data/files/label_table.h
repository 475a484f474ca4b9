// CSV files that list examples: the column `path` says which, the column `label` what they are.
// `evaluate --predictions` writes such files.
#pragma once

#include "data/files/csv.h"
#include "data/files/decode_rules.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace whisker {

struct LabelTable {
  std::string name;                     ///< for messages
  std::vector<CsvRow> rows;             ///< one or more, without the header
  size_t path = 0, label = 0;           ///< columns
  std::vector<std::string> notes = {};  ///< what was assumed, and which columns are not used
};

/// Reads `csv`. Throws data for a file without these columns or rows, for a path that holds a NUL
/// byte and for a row without a label.
LabelTable read_label_table(const std::filesystem::path& csv, int rules = newest_data_rules);

/// What the rows of a table list, each once.
class ListedOnce {
 public:
  explicit ListedOnce(const LabelTable& table) : table_(table) {}
  /// `row` of the table lists `what`. Throws data, naming both rows, where one before does.
  void add(const std::string& what, const CsvRow& row);

 private:
  const LabelTable& table_;
  std::map<std::string, const CsvRow*> rows_;
};

}  // namespace whisker
