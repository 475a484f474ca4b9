#include "data/files/label_table.h"

#include "core/error.h"
#include "core/io/text.h"
#include "data/files/check_reading.h"
#include "data/files/file_walk.h"
#include "data/files/text_file.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace whisker {
namespace {

/// The position of a column in the header; notes a name in another case. Throws data without it,
/// and where several have the name.
size_t column_of(const CsvRow& header, std::string_view wanted, LabelTable& table, int rules) {
  if (rules < 3) {
    const auto first = std::ranges::find(header.fields, wanted);
    if (first != header.fields.end()) return static_cast<size_t>(first - header.fields.begin());
  }
  const std::optional<size_t> found = named_column(header, wanted, table.name);
  if (!found) {
    fail(ErrorKind::data, "{}:{}: expected a header with the columns path and label, got {}.",
         table.name, header.line, quoted_list(header.fields));
  }
  if (header.fields[*found] != wanted) {
    table.notes.push_back(fmt::format("{}: column {} ({}) is read as {}, in another case",
                                      table.name, *found + 1, excerpt(header.fields[*found]),
                                      wanted));
  }
  return *found;
}

/// " as 'a'" of a cell that is 'a' in the row before; "" where both rows have the same.
std::string unless_same(std::string_view as, const CsvRow& before, const CsvRow& row,
                        size_t column) {
  const std::string& cell = before.fields[column];
  return cell == row.fields[column] ? std::string() : fmt::format("{} {}", as, excerpt(cell));
}

void note_unused(const CsvRow& header, LabelTable& table) {
  std::vector<std::string> unused;
  for (size_t i = 0; i < header.fields.size(); ++i) {
    if (i == table.path || i == table.label) continue;
    if (header.fields[i] != "split") {
      unused.push_back(header.fields[i]);
    } else {
      table.notes.push_back(
          fmt::format("{}: the column split is not used: all rows are read", table.name));
    }
  }
  if (unused.empty()) return;
  table.notes.push_back(fmt::format("{}: the labels are those of column {} ({}); not used: {}",
                                    table.name, table.label + 1,
                                    excerpt(header.fields[table.label]), quoted_list(unused)));
}

}  // namespace

LabelTable read_label_table(const std::filesystem::path& csv, int rules) {
  LabelTable table{.name = printable(csv.string()), .rows = {}};
  const std::string text = read_table(csv, rules, table.notes);
  const char separator = csv_separator(text);
  const auto refuse = [&](int line, std::string_view reason) {
    fail(ErrorKind::data, "{}:{}: {}.", table.name, line, reason);
  };
  table.rows = parse_csv(text, table.name, refuse, separator);
  check_reading(rules, table.notes, [&] {
    for (const CsvRow& row : table.rows) {
      if (row.stray_cr) refuse(row.line, stray_cr_reason);
    }
  });
  if (table.rows.size() < 2) {
    fail(ErrorKind::data, "{}: expected a header and rows, got none.", table.name);
  }
  const CsvRow header = std::move(table.rows.front());
  table.rows.erase(table.rows.begin());
  table.path = column_of(header, "path", table, rules);
  table.label = column_of(header, "label", table, rules);
  note_unused(header, table);
  if (separator != ',') {
    table.notes.push_back(fmt::format("{}: fields end at {}, as the first line has no comma",
                                      table.name, separator == ';' ? "semicolons" : "tabs"));
  }
  for (const CsvRow& row : table.rows) {
    check_listed_path(row, row.fields[table.path], table.name);
    if (!row.fields[table.label].empty()) continue;
    fail(ErrorKind::data, "{}:{}: '{}' has no label.", table.name, row.line,
         printable(row.fields[table.path]));
  }
  return table;
}

void ListedOnce::add(const std::string& what, const CsvRow& row) {
  const auto [first, is_new] = rows_.emplace(what, &row);
  if (is_new) return;
  const CsvRow& before = *first->second;
  fail(ErrorKind::data, "{}:{}: {} is listed in line {} already{}{}. Keep one of these rows.",
       table_.name, row.line, excerpt(row.fields[table_.path]), before.line,
       unless_same(" as", before, row, table_.path),
       unless_same(", with the label", before, row, table_.label));
}

}  // namespace whisker
