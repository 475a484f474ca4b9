#include "data/sequences/text_columns.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "data/files/file_walk.h"
#include "data/sequences/table_header.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace whisker {
namespace {

bool is_type(std::string_view cell) {
  constexpr std::string_view words =
      " int int8 int16 int32 int64 integer long float float16 float32 float64 double num numeric "
      "number dbl str string chr char character varchar object bool boolean logical lgl category "
      "categorical factor fct discrete date time datetime datetime64[ns] timestamp ";
  while (cell.starts_with(' ')) cell.remove_prefix(1);
  while (cell.ends_with(' ')) cell.remove_suffix(1);
  if (cell.starts_with('<') && cell.ends_with('>')) cell = cell.substr(1, cell.size() - 2);
  return cell.find(' ') == cell.npos &&
         words.find(fmt::format(" {} ", to_small_letters(cell))) != words.npos;
}

bool is_named(const RowFile& file, size_t column) {
  const std::string name = file.names.empty() ? "" : to_small_letters(file.names[column]);
  return !name.empty() && !name.starts_with("unnamed: ");  // as pandas writes
}

// "column 2 ('Title')".
std::string column_text(const RowFile& file, size_t column) {
  return fmt::format(
      "column {}{}", column + 1,
      is_named(file, column) ? fmt::format(" ({})", excerpt(file.names[column])) : "");
}

// Whether a column's name says what is no text to classify, although its cells may hold words.
bool is_named_otherwise(const RowFile& file, size_t column) {
  constexpr std::array<std::string_view, 12> words = {"date",    "time", "created_at", "author",
                                                      "authors", "user", "name",       "url",
                                                      "link",    "id",   "location",   "source"};
  return is_named(file, column) &&
         std::ranges::find(words, to_small_letters(file.names[column])) != words.end();
}

// Whether more than half of the cells hold three words or more.
bool reads_as_text(const RowFile& file, size_t column) {
  const auto texts = std::ranges::count_if(file.rows, [&](const CsvRow& row) {
    const std::string& cell = row.fields[column];
    int64_t words = 0;
    for (size_t i = 0; i < cell.size(); ++i) {
      words += cell[i] != ' ' && (i == 0 || cell[i - 1] == ' ') ? 1 : 0;
    }
    return words > 2;
  });
  return 2 * texts > std::ssize(file.rows);
}

size_t distinct_cells(const RowFile& file, size_t column) {
  std::set<std::string_view> cells;
  for (const CsvRow& row : file.rows) cells.insert(row.fields[column]);
  return cells.size();
}

}  // namespace

void refuse_types(const RowFile& file, bool header_known, const TextColumns& columns) {
  for (size_t i = 0; i < std::min<size_t>(2, file.rows.size()); ++i) {
    const std::vector<std::string>& cells = file.rows[i].fields;
    const std::string &label = cells[columns.label], &text = cells[columns.text];
    if (i == 0 && (header_known || names_label(label) || names_text(text))) continue;
    const bool names = i == 1 && names_label(label) && names_text(text);
    if (!names && !std::ranges::all_of(cells, is_type)) continue;
    fail(ErrorKind::data,
         "{}: the row ({}) holds {} of columns and is no example. Remove {}; with "
         "data.header=false every row is an example.",
         file.place(file.rows[i]), quoted_list(cells), names ? "names" : "types",
         names ? "the row above it" : "this row");
  }
}

void refuse_likely_columns(const RowFile& file, const TextColumns& columns) {
  if (file.rows.empty()) return;
  const size_t label = columns.label, text = columns.text;
  const bool named_text = is_named(file, text) && names_text(file.names[text]);
  if (columns.text_chosen || (named_text && names_text(file.names[text], true))) return;
  std::vector<std::string> columns_text = {column_text(file, text)};
  std::string keys = fmt::format("data.text.text_column={}", text + 1);
  for (size_t i = 0; i < file.rows.front().fields.size(); ++i) {
    if (i == label || i == text || is_named_otherwise(file, i) || !reads_as_text(file, i)) continue;
    if (named_text && !names_text(file.names[i])) continue;
    columns_text.push_back(column_text(file, i));
    keys += fmt::format(" or data.text.text_column={}", i + 1);
  }
  if (columns_text.size() > 1) {
    fail(ErrorKind::data, "{}: the text may be {}, and one column is read. Set {}.", file.name,
         fmt::join(columns_text, " or "), keys);
  }
  const size_t labels = columns.label_chosen ? 0 : distinct_cells(file, label);
  if (2 * labels <= file.rows.size()) return;
  if (const size_t texts = distinct_cells(file, text); 4 * texts <= labels) {
    fail(
        ErrorKind::data,
        "{}: {} is read as the label and {} as the text, but the first holds {} labels in {} rows, "
        "and the second {} texts. Set data.label_column={} and data.text.text_column={} to read "
        "them the other way round, or {} and {} to keep this.",
        file.name, column_text(file, label), column_text(file, text), labels, file.rows.size(),
        texts, text + 1, label + 1, label + 1, text + 1);
  }
}

std::vector<std::string> unread_columns(const RowFile& file, const TextColumns& columns) {
  std::vector<std::string> unread;
  int64_t rows = 0;
  std::string first;
  const size_t width = file.rows.empty() ? 0 : file.rows.front().fields.size();
  for (size_t i = 0; i < width; ++i) {
    if (i == columns.label || i == columns.text) continue;
    if (columns.label_chosen && columns.text_chosen) break;
    if (is_named(file, i) || i < columns.text) unread.push_back(column_text(file, i));
  }
  for (const CsvRow& row : file.rows) {
    for (size_t i = columns.text + 1; i < width; ++i) {
      if (row.fields[i].empty() || i == columns.label || is_named(file, i)) continue;
      if (rows++ == 0) {
        first = fmt::format("{} in column {} of line {}", excerpt(row.fields[i]), i + 1, row.line);
      }
      break;
    }
  }
  std::vector<std::string> notes;
  if (!unread.empty()) {
    notes.push_back(fmt::format(
        "{}: of {} columns, {} and {} are read; not read: {} (data.text.text_column, "
        "data.label_column)",
        file.name, width, columns.label + 1, columns.text + 1, fmt::join(unread, ", ")));
  }
  if (rows > 0) {
    notes.push_back(fmt::format(
        "{}: columns without a name that are not read hold something in {} of {}, such as {}; "
        "where it is the rest of a text: {}",
        file.name, rows, counted(std::ssize(file.rows), "row"), first, file.field_ends));
  }
  return notes;
}

}  // namespace whisker
