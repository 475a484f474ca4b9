#include "data/sequences/table_header.h"

#include "core/error.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "data/files/check_reading.h"
#include "data/files/file_walk.h"
#include "data/sequences/numbered_header.h"
#include "data/sequences/scaling.h"
#include "data/sequences/table_checks.h"
#include "data/sequences/text_columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>

namespace whisker {
namespace {

using Words = std::span<const std::string_view>;

// Names that columns of labels and of texts have in published tables; the first can mean nothing
// else.
constexpr std::array<std::string_view, 12> label_words = {
    "label",     "labels", "class",  "target", "y",     "category",
    "sentiment", "tag",    "intent", "rating", "stars", "language"};
constexpr std::array<std::string_view, 14> text_words = {
    "text",    "texts",    "sentence", "review",   "tweet", "message", "comment",
    "content", "document", "sms",      "headline", "body",  "post",    "question"};
constexpr std::array<std::string_view, 8> missing_words = {"na",   "n/a", "#n/a", "null",
                                                           "none", "-",   "?",    "."};
constexpr Words sure_label_words = Words(label_words).first(6);
constexpr Words sure_text_words = Words(text_words).first(2);
constexpr Words header_text_words = Words(text_words).first(9);  // as old runs know headers

std::string_view trimmed(std::string_view cell) {
  while (cell.starts_with(' ')) cell.remove_prefix(1);
  while (cell.ends_with(' ')) cell.remove_suffix(1);
  return cell;
}

bool is_one_of(Words words, std::string_view cell) {
  return std::ranges::find(words, to_small_letters(trimmed(cell))) != words.end();
}

bool is_column_word(std::string_view cell) {
  return is_one_of(label_words, cell) || is_one_of(header_text_words, cell) ||
         to_small_letters(trimmed(cell)) == "id";
}

void drop_noted(RowFile& file, std::string_view besides = "") {
  file.notes.push_back(fmt::format(
      "{}: the first row ({}) is read as the names of the columns{} (data.header=false, or "
      "--header false of evaluate: as an example)",
      file.name, quoted_list(file.rows.front().fields), besides));
  drop_headers(file);
}

bool is_number(const std::string& cell) {
  return number_of(cell).has_value();
}

// Removes a first row whose names are numbers. Throws data where it may be an example as well.
bool drop_numbered_header(RowFile& file, size_t label, std::span<const std::string> classes = {}) {
  const NumberedHeader found = find_numbered_header(file, label, classes);
  if (found == NumberedHeader::unclear) {
    fail(
        ErrorKind::data,
        "{}: the first row ({}) may number the columns, or be an example. Set data.header=true or "
        "data.header=false (of evaluate: --header; for classify remove the row, or put names above "
        "it).",
        file.place(file.rows.front()), quoted_list(file.rows.front().fields));
  }
  if (found == NumberedHeader::yes) drop_noted(file, "; a number in a key counts them from 1");
  return found == NumberedHeader::yes;
}

// Whether the first of the column's cells is a name and all others are numbers.
bool only_first_is_column_name(const RowFile& file, size_t column) {
  return file.rows.size() > 1 && is_column_name(file.rows.front().fields[column]) &&
         std::all_of(file.rows.begin() + 1, file.rows.end(),
                     [&](const CsvRow& row) { return is_number(row.fields[column]); });
}

// Whether another row is the first one again, as the header is in tables that were written one
// behind the other; always false of older rules.
bool repeats_first(const RowFile& file, const CsvRow& row) {
  return file.rules > 2 && row.fields == file.rows.front().fields;
}

// Whether the first row's label is a class, or that of another row.
bool is_known_label(const RowFile& file, size_t label, std::span<const std::string> classes) {
  const std::string& name = file.rows.front().fields[label];
  return find_name(classes, name).index ||
         std::any_of(file.rows.begin() + 1, file.rows.end(), [&](const CsvRow& row) {
           return row.fields[label] == name && !repeats_first(file, row);
         });
}

// Below a header that was found: throws data for another row without a number, a date or a
// missing value, as two rows of names, types and units are.
void refuse_second_header(RowFile& file) {
  if (file.rows.empty()) return;
  const CsvRow& row = file.rows.front();
  const auto may_be_value = [](const std::string& cell) {
    const std::string_view begin = trimmed(cell).substr(0, 1);
    return is_number(cell) || is_one_of(missing_words, cell) ||
           (!begin.empty() && begin[0] >= '0' && begin[0] <= '9');
  };
  if (std::ranges::any_of(row.fields, may_be_value)) return;
  if (std::ranges::none_of(row.fields, is_column_name)) return;
  check_reading(file.rules, file.notes, [&] {
    fail(ErrorKind::data,
         "{}: the row ({}) may hold the names of the columns, or types, units or a comment, as may "
         "the row above it ({}). Remove the one that does not hold the names; data.header=true "
         "(--header true of evaluate) keeps the upper one and skips the lower.",
         file.place(row), quoted_list(row.fields), quoted_list(file.names));
  });
}

// The part of drop_rows_header() for what the cells tell.
bool is_rows_header(const RowFile& file, size_t label, std::span<const std::string> classes) {
  const std::vector<std::string>& first = file.rows.front().fields;
  bool any_value = false, any_name = false;
  for (size_t i = 0; i < first.size(); ++i) {
    any_value = any_value || (i != label && is_number(first[i]));
    any_name = any_name || (i != label && is_column_name(first[i]));
  }
  if (file.rules == 1 || (file.rules == 2 && !any_value)) return !any_value;
  if (label >= first.size()) return any_name && !any_value;
  const std::string& name = first[label];
  if (is_known_label(file, label, classes)) return false;
  // Names may be numbers ("label,0,1,2").
  return (any_name && !any_value && !is_number(name)) || is_column_word(name) ||
         only_first_is_column_name(file, label);
}

// A column, given by its number, that the header calls otherwise, where another has the name.
void refuse_other_column(const RowFile& file, size_t column, size_t other, std::string_view what,
                         std::string_view key) {
  const std::string& name = file.names[column];
  const std::string& other_name = file.names[other];
  const auto setting = [&](const std::string& value) {  // for a shell, too
    const bool plain = value.find_first_of(" '\"()[]{}<>|&;$*?#!`\\") == std::string::npos;
    const std::string text = fmt::format("{}={}", key, printable(value));
    return plain ? text : fmt::format("'{}'", text);
  };
  fail(ErrorKind::data,
       "{}: column {} is read as the {}, but the first row calls it {}, and column {} {}. Give the "
       "name of the right one: {} or {} (of evaluate and classify: --{}-column).",
       file.name, column + 1, what, excerpt(name), other + 1, excerpt(other_name), setting(name),
       setting(other_name), what);
}

// Refuses a header, now removed, that calls another column the label.
void check_label_name(RowFile& file, size_t label) {
  if (label >= file.names.size() || names_label(file.names[label])) return;
  const auto other = column_called_label(file.names, label);
  if (!other) return;
  check_reading(file.rules, file.notes,
                [&] { refuse_other_column(file, label, *other, "label", "data.label_column"); });
}

void check_text_name(RowFile& file, size_t label, size_t text) {
  if (file.names.empty() || names_text(file.names[text])) return;
  for (size_t i = 0; i < file.names.size(); ++i) {
    if (i == label || !names_text(file.names[i], true)) continue;
    check_reading(file.rules, file.notes,
                  [&] { refuse_other_column(file, text, i, "text", "data.text.text_column"); });
  }
}

// The part of drop_text_header() for what the cells tell.
void drop_likely_text_header(RowFile& file, size_t label, size_t text,
                             std::span<const std::string> classes) {
  if (drop_numbered_header(file, label, classes)) return;
  const CsvRow& first = file.rows.front();
  const std::string& name = first.fields[label];
  if (find_name(classes, name).index) return;
  const bool words = is_column_word(name) || is_column_word(first.fields[text]);
  if (!classes.empty()) {
    if (words) drop_noted(file);
    return;  // else an example with an unknown class, which is reported
  }
  std::map<std::string_view, int64_t> counts;
  for (const CsvRow& row : file.rows) {
    const bool repeated = &row != &first && names_label(name) && repeats_first(file, row);
    counts[row.fields[label]] += repeated ? 0 : 1;
  }
  if (counts[name] > 1) return;
  if (words || only_first_is_column_name(file, label)) return drop_noted(file);
  if (unread_column_has_name(file, std::array{label, text})) return drop_noted(file);
  const bool single = std::ranges::any_of(
      counts, [&](const auto& one) { return one.first != name && one.second == 1; });
  const bool commented = file.rules > 2 && first.fields[0].starts_with('#');
  if (single && !commented) return;  // other classes have one example as well
  fail(
      ErrorKind::data,
      "{}:{}: the first row may hold the names of the columns, or an example of a class {} that no "
      "other row has. Set data.header=true or data.header=false.",
      file.name, first.line, excerpt(name));
}

}  // namespace

bool names_label(std::string_view cell) {
  return is_one_of(label_words, cell);
}

bool names_text(std::string_view cell, bool surely) {
  return is_one_of(surely ? sure_text_words : Words(text_words), cell);
}

bool is_column_name(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double ignored = 0;  // from_chars() reads NaN and infinity as well
  const char* const end = cell.data() + cell.size();
  return std::from_chars(cell.data(), end, ignored).ptr != end && !is_one_of(missing_words, cell);
}

void check_header_named(Header header, bool named, const std::string& file) {
  if (header != Header::absent || !named) return;
  fail(ErrorKind::usage,
       "{}: columns are given by name, but data.header is false. Give their numbers, from 1.",
       file);
}

void drop_text_header(RowFile& file, Header header, const TextColumns& columns,
                      std::span<const std::string> classes) {
  const bool named = columns.label_named || columns.text_named;
  check_header_named(header, named, file.name);
  if (header != Header::absent && classes.empty()) {
    check_reading(file.rules, file.notes,
                  [&] { refuse_types(file, named || header == Header::present, columns); });
  }
  if (named || header == Header::present) {
    drop_headers(file);
  } else if (header == Header::automatic) {
    drop_likely_text_header(file, columns.label, columns.text, classes);
  }
  if (!columns.label_named) check_label_name(file, columns.label);
  if (!columns.text_named) check_text_name(file, columns.label, columns.text);
}

void drop_rows_header(RowFile& file, Header header, bool named, size_t label,
                      std::span<const std::string> classes) {
  check_header_named(header, named, file.name);
  if ((named && file.rules > 1) || header == Header::present) {
    drop_headers(file);
  } else if (header == Header::automatic) {
    const bool numbered = drop_numbered_header(file, label, classes);
    if (!numbered && is_rows_header(file, label, classes)) drop_noted(file);
    const bool labelled = !file.rows.empty() && label < file.rows.front().fields.size();
    const bool dropped = !file.names.empty();
    if (dropped && !(labelled && is_known_label(file, label, classes))) refuse_second_header(file);
  }
  if (!named) check_label_name(file, label);
}

void drop_series_header(RowFile& file, Header header, bool named, std::span<const size_t> columns) {
  check_header_named(header, named, file.name);
  if ((named && file.rules > 2) || header == Header::present) return drop_headers(file);
  if (header == Header::absent) return;
  if (drop_numbered_header(file, file.rows.front().fields.size())) {
    return refuse_second_header(file);
  }
  const std::vector<std::string>& first = file.rows.front().fields;
  const bool any_value =
      std::ranges::any_of(columns, [&](size_t i) { return is_number(first[i]); });
  const bool any_name =
      std::ranges::any_of(columns, [&](size_t i) { return is_column_name(first[i]); });
  if ((any_value || !(any_name || file.rules < 3)) && !unread_column_has_name(file, columns)) {
    return;
  }
  drop_noted(file);
  refuse_second_header(file);
}

std::optional<size_t> column_called_label(std::span<const std::string> names, size_t label) {
  bool has_x = false;  // a coordinate, which y is then as well
  for (size_t i = 0; i < names.size(); ++i) {
    has_x = has_x || (i != label && to_small_letters(trimmed(names[i])) == "x");
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == label || !is_one_of(sure_label_words, names[i])) continue;
    if (!has_x || to_small_letters(trimmed(names[i])) != "y") return i;
  }
  return std::nullopt;
}

std::vector<std::string> names_of(const RowFile& file, std::span<const size_t> columns,
                                  std::span<const std::string> expected) {
  std::vector<std::string> names;
  if (file.names.empty() || file.rules < 3) return names;
  for (const size_t column : columns) names.push_back(printable(file.names[column]));
  for (size_t i = 0; i < std::min(names.size(), expected.size()); ++i) {
    if (to_small_letters(trimmed(names[i])) == to_small_letters(trimmed(expected[i]))) continue;
    fail(ErrorKind::data,
         "{}: expected column {} to be {} as in the training data, got {}. Put the columns in the "
         "order {}; if they are in it under other names, correct or remove the first row.",
         file.name, columns[i] + 1, excerpt(expected[i]), excerpt(names[i]), quoted_list(expected));
  }
  return names;
}

void write_header(JsonWriter& json, Header header) {
  if (header != Header::automatic) json.field("header", header == Header::present);
}

Header read_header(const JsonValue& json) {
  const JsonValue* const header = json.find("header");
  if (!header) return Header::automatic;
  return header->as_bool() ? Header::present : Header::absent;
}

std::vector<std::string> read_names(const JsonValue& json) {
  const JsonValue* const names = json.find("names");
  return names ? names->as_strings() : std::vector<std::string>();
}

}  // namespace whisker
