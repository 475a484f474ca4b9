#include "data/sequences/table_header.h"

#include "core/error.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "data/files/file_walk.h"
#include "data/sequences/scaling.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace whisker {
namespace {

// Names that columns of labels and texts have in published tables.
bool is_column_word(std::string_view cell) {
  constexpr std::array<std::string_view, 22> words = {
      "label",  "labels",  "class",   "category", "target",   "y",     "sentiment", "tag",
      "intent", "rating",  "stars",   "language", "text",     "texts", "sentence",  "review",
      "tweet",  "message", "comment", "content",  "document", "id"};
  while (cell.starts_with(' ')) cell.remove_prefix(1);
  while (cell.ends_with(' ')) cell.remove_suffix(1);
  return std::ranges::find(words, to_small_letters(cell)) != words.end();
}

void drop_noted(RowFile& file) {
  file.notes.push_back(fmt::format(
      "{}: the first row ({}) is read as the names of the columns (data.header=false, or --header "
      "false of evaluate: as an example)",
      file.name, quoted_list(file.rows.front().fields)));
  file.drop_header();
}

bool is_number(const std::string& cell) {
  return number_of(cell).has_value();
}

// Whether the first of the column's cells is no number and all others are.
bool only_first_is_no_number(const RowFile& file, size_t column) {
  return file.rows.size() > 1 && !is_number(file.rows.front().fields[column]) &&
         std::all_of(file.rows.begin() + 1, file.rows.end(),
                     [&](const CsvRow& row) { return is_number(row.fields[column]); });
}

}  // namespace

void check_header_named(Header header, bool named, const std::string& file) {
  if (header != Header::absent || !named) return;
  fail(ErrorKind::usage,
       "{}: columns are given by name, but data.header is false. Give their numbers, from 1.",
       file);
}

void drop_text_header(RowFile& file, Header header, bool named, size_t label, size_t text,
                      std::span<const std::string> classes) {
  check_header_named(header, named, file.name);
  if (named || header == Header::present) return file.drop_header();
  const CsvRow& first = file.rows.front();
  const std::string& name = first.fields[label];
  if (header == Header::absent || find_name(classes, name).index) return;
  const bool words = is_column_word(name) || is_column_word(first.fields[text]);
  if (!classes.empty()) {
    if (words) drop_noted(file);
    return;  // else an example with an unknown class, which is reported
  }
  std::map<std::string_view, int64_t> counts;
  for (const CsvRow& row : file.rows) ++counts[row.fields[label]];
  if (counts[name] > 1) return;
  if (words || only_first_is_no_number(file, label)) return drop_noted(file);
  const bool single = std::ranges::any_of(
      counts, [&](const auto& one) { return one.first != name && one.second == 1; });
  if (single) return;  // other classes have one example as well
  fail(
      ErrorKind::data,
      "{}:{}: the first row may hold the names of the columns, or an example of a class {} that no "
      "other row has. Set data.header=true or data.header=false.",
      file.name, first.line, excerpt(name));
}

void drop_rows_header(RowFile& file, Header header, bool named, size_t label) {
  check_header_named(header, named, file.name);
  if (named || header == Header::present) return file.drop_header();
  if (header == Header::absent) return;
  const std::vector<std::string>& first = file.rows.front().fields;
  const auto is_value = [&](size_t i) { return i != label && is_number(first[i]); };
  bool any_value = false;
  for (size_t i = 0; i < first.size(); ++i) any_value = any_value || is_value(i);
  if (!any_value) return file.drop_header();  // of names alone
  // Names may be numbers ("label,0,1,2").
  if (label >= first.size()) return;
  const bool only_here =
      std::none_of(file.rows.begin() + 1, file.rows.end(),
                   [&](const CsvRow& row) { return row.fields[label] == first[label]; });
  if (only_here && (is_column_word(first[label]) || only_first_is_no_number(file, label))) {
    drop_noted(file);
  }
}

void drop_series_header(RowFile& file, Header header, bool named, std::span<const size_t> columns) {
  check_header_named(header, named, file.name);
  if (header == Header::absent) return;
  const std::vector<std::string>& first = file.rows.front().fields;
  const bool no_value =
      std::ranges::none_of(columns, [&](size_t i) { return is_number(first[i]); });
  if (header == Header::present || no_value) file.drop_header();
}

void write_header(JsonWriter& json, Header header) {
  if (header != Header::automatic) json.field("header", header == Header::present);
}

Header read_header(const JsonValue& json) {
  const JsonValue* const header = json.find("header");
  if (!header) return Header::automatic;
  return header->as_bool() ? Header::present : Header::absent;
}

}  // namespace whisker
