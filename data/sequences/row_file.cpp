#include "data/sequences/row_file.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/work_progress.h"
#include "data/files/file_walk.h"
#include "data/files/text_file.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace whisker {
namespace {

char separator_of(const std::filesystem::path& path, std::string_view text) {
  const std::string extension = path.extension().string();
  if (extension == ".csv") return ',';
  if (extension == ".tsv") return '\t';
  const std::string_view line = text.substr(0, text.find('\n'));
  for (const char separator : {'\t', ','}) {
    if (line.find(separator) != std::string_view::npos) return separator;
  }
  return ' ';
}

std::vector<std::string> split(std::string_view line, char separator) {
  std::vector<std::string> fields;
  for (;;) {
    if (separator == ' ') {  // a run of spaces counts as one, and as none at the line's ends
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      if (line.empty()) return fields;
    }
    const size_t end = std::min(line.find(separator), line.size());
    fields.emplace_back(line.substr(0, end));
    if (end == line.size()) return fields;
    line.remove_prefix(end + 1);
  }
}

void read_plain_rows(std::string_view text, char separator, RowFile& file) {
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    count_progress();
    CsvRow row{.line = number,
               .fields = split(line, separator),
               .stray_cr = line.find('\r') != std::string_view::npos};
    if (line.empty() || row.fields.empty()) continue;
    if (!file.rows.empty() && row.fields.size() != file.rows.front().fields.size()) {
      file.refuse(row, row.stray_cr ? std::string(stray_cr_reason)
                                    : field_count_reason(file.rows.front().fields.size(),
                                                         row.fields.size(), file.field_ends));
    } else {
      file.rows.push_back(std::move(row));
    }
  }
}

// Whether a field has quotes around it and, between them, two that stand for one.
bool has_doubled_quotes(const std::string& field) {
  return field.size() > 3 && field.starts_with('"') && field.ends_with('"') &&
         field.find("\"\"", 1) < field.size() - 2;
}

// Reads rows whose fields end at tabs: by the quoting of CSV files where all quotes are such.
void read_tab_rows(std::string_view text, RowFile& file) {
  read_plain_rows(text, '\t', file);
  int64_t quoted = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    quoted += text[i] == '"' && (i == 0 || text[i - 1] == '\t' || text[i - 1] == '\n') ? 1 : 0;
  }
  if (file.rules < 3 || quoted == 0) return;
  std::vector<CsvRow> rows;
  try {
    rows = parse_csv(text, file.name, '\t');
  } catch (const Error&) {  // quotes of the text, as many published tables have them
    const bool doubled = std::ranges::any_of(file.rows, [](const CsvRow& row) {
      return std::ranges::any_of(row.fields, has_doubled_quotes);
    });
    if (doubled) {
      file.notes.push_back(fmt::format(
          "{}: quotes are read as a part of the text, although \"\" stands between quotes as in a "
          "CSV file: not all of them open and close a field",
          file.name));
    }
    return;
  }
  if (file.bad.empty() && rows.size() != file.rows.size()) return;  // joins rows that fit
  file.notes.push_back(fmt::format(
      "{}: {} in quotes, which are not read, as all quotes of the file open and close a field",
      file.name, quoted == 1 ? "1 field is" : fmt::format("{} fields are", quoted)));
  file.rows = std::move(rows);
  file.bad.clear();
  file.field_ends = quoting_rule('\t');
}

// How many fields a line of its own has; 0 where quotes do not close in it.
size_t field_count(std::string_view line, char separator, bool csv) {
  if (!csv) return split(line, separator).size();
  try {
    const std::vector<CsvRow> rows = parse_csv(line, "", separator);
    return rows.empty() ? 0 : rows.front().fields.size();
  } catch (const Error&) {
    return 0;
  }
}

// Empties the comments above a table, so that lines keep their numbers, and notes them: lines that
// begin with # and have another number of fields than the first line that does not. Returns where
// the table begins.
size_t empty_comments(const std::filesystem::path& path, std::string& text, RowFile& file) {
  size_t body = 0;
  const auto line_at = [&](size_t at) {
    return std::string_view(text).substr(at, text.find('\n', at) - at);
  };
  while (body < text.size() && (text[body] == '#' || text[body] == '\n')) {
    body += std::min(line_at(body).size() + 1, text.size() - body);
  }
  const std::string_view table = std::string_view(text).substr(body);
  if (!text.starts_with('#') || table.empty()) return 0;
  const char separator = separator_of(path, table);
  const bool csv = separator == ',';
  const auto fields = [&](std::string_view line) {
    return field_count(line, csv ? csv_separator(table) : separator, csv);
  };
  const size_t expected = fields(line_at(body));
  size_t end = 0;
  int64_t lines = 0;
  const std::string first = excerpt(line_at(0));
  for (; end < body && (text[end] == '\n' || fields(line_at(end)) != expected); ++lines) {
    end += line_at(end).size() + 1;
  }
  if (lines == 0) return 0;
  text.replace(0, end, static_cast<size_t>(lines), '\n');
  file.notes.push_back(fmt::format(
      "{}: line 1 ({}){} not read: comments begin with # (in quotes it would be a row)", file.name,
      first, lines == 1 ? " is" : fmt::format(" and others up to line {} are", lines)));
  return static_cast<size_t>(lines);
}

// Rows that may be two, which a CR ends: older runs took it for a part of the text.
void refuse_stray_cr(RowFile& file) {
  if (file.rules < 3) return;
  if (file.rows.front().stray_cr) {
    fail(ErrorKind::data, "{}: {}.", file.place(file.rows.front()), stray_cr_reason);
  }
  for (const CsvRow& row : file.rows) {
    if (row.stray_cr) file.refuse(row, std::string(stray_cr_reason));
  }
  std::erase_if(file.rows, [](const CsvRow& row) { return row.stray_cr; });
  std::ranges::stable_sort(file.bad, {}, &BadRow::line);
}

// A first row of one field, in which another separator stands.
void refuse_one_field(const RowFile& file, const std::string& column) {
  const CsvRow& header = file.rows.front();
  for (const char other : {',', ';', '\t', '|'}) {
    const bool there = header.fields[0].find(other) != std::string::npos;
    if (header.fields.size() > 1 || other == file.separator || !there) continue;
    fail(ErrorKind::data, "{}: expected column {}: {}", file.place(header), printable(column),
         separator_reason(file, header.fields[0], other));
  }
}

}  // namespace

std::string RowFile::place(const CsvRow& row) const {
  return fmt::format("{}:{}", name, row.line);
}

RowFile read_rows(const std::filesystem::path& path, int rules) {
  RowFile file{.name = printable(path.string()), .rows = {}, .bad = {}, .rules = rules};
  std::string text = read_table(path, rules, file.notes);
  const size_t begin = rules > 2 ? empty_comments(path, text, file) : 0;
  const std::string_view table = std::string_view(text).substr(begin);
  const char separator = separator_of(path, table);
  if (separator == ',') {
    const char found = csv_separator(table);
    if (found != ',') {
      file.notes.push_back(fmt::format(
          "{}: fields end at {}, as the first line has no comma (in a file that ends in .csv)",
          file.name, found == ';' ? "semicolons" : "tabs"));
    }
    const auto refuse = [&](int line, std::string reason) {
      file.refuse({.line = line, .fields = {}}, std::move(reason));
    };
    file.separator = found;
    file.field_ends = quoting_rule(found);
    file.rows = parse_csv(text, file.name, refuse, found);
  } else {
    const bool semicolon = table.substr(0, table.find('\n')).find(';') != std::string_view::npos;
    file.field_ends = separator != ' ' ? "fields end at tabs, and quotes do not change that"
                      : semicolon
                          ? "fields end at spaces, as the first line has no tab and no comma; "
                            "semicolons end fields in a file that ends in .csv"
                          : "fields end at spaces, as the first line has no tab and no comma";
    file.separator = separator;
    separator == '\t' ? read_tab_rows(text, file) : read_plain_rows(text, separator, file);
  }
  if (file.rows.empty()) fail(ErrorKind::data, "{}: expected rows, got an empty file", file.name);
  refuse_stray_cr(file);
  file.count = std::ssize(file.rows) + std::ssize(file.bad);
  return file;
}

bool is_column_number(std::string_view column) {
  return !column.empty() &&
         std::ranges::all_of(column, [](char c) { return c >= '0' && c <= '9'; });
}

size_t column_position(std::string_view column) {
  size_t number = 0;
  std::from_chars(column.data(), column.data() + column.size(), number);
  return number - 1;
}

std::string separator_reason(const RowFile& file, std::string_view cell, char separator) {
  const auto name = [](char c) {
    return c == ','    ? "commas"
           : c == ';'  ? "semicolons"
           : c == '\t' ? "tabs"
           : c == '|'  ? "'|'"
                       : "spaces";
  };
  const char* const used = name(file.separator);
  const bool renames = file.separator == ' ' && separator == ';';
  return fmt::format(
      "fields are read to end at {}, but {} may be several that end at {}. {} them by {}{}.", used,
      excerpt(cell), name(separator),
      renames ? "Name the file .csv, where semicolons end fields, or separate" : "Separate", used,
      file.field_ends.starts_with("a field") ? fmt::format("; {}", file.field_ends) : "");
}

size_t find_column(RowFile& file, const std::string& column) {
  const CsvRow& header = file.rows.front();
  const size_t count = header.fields.size();
  if (is_column_number(column)) {
    const size_t position = column_position(column);
    if (position < count) return position;
    refuse_one_field(file, column);
    fail(ErrorKind::data, "{}: expected a column from 1 to {}, got {}", file.name, count, column);
  }
  if (file.rules < 3) {  // took the first of several
    const auto first = std::ranges::find(header.fields, column);
    if (first != header.fields.end()) return static_cast<size_t>(first - header.fields.begin());
  }
  const std::optional<size_t> found = named_column(header, column, file.name);
  if (!found) {
    refuse_one_field(file, column);
    const std::string nearest = nearest_name(column, header.fields);
    fail(ErrorKind::data, "{}: no column {} in the first row, which has {}.{}", file.name,
         excerpt(column), quoted_list(header.fields),
         nearest.empty() ? "" : " Did you mean '" + nearest + "'?");
  }
  if (header.fields[*found] != column) {
    file.notes.push_back(fmt::format("{}: column {} ({}) is read as {}, in another case", file.name,
                                     *found + 1, excerpt(header.fields[*found]), excerpt(column)));
  }
  return *found;
}

void check_bad_rows(const std::vector<BadRow>& bad, int64_t total, double max_bad) {
  const auto share = static_cast<int64_t>(max_bad * static_cast<double>(total) + 1e-9);
  const int64_t allowed = max_bad > 0 ? std::max<int64_t>(1, share) : 0;
  if (std::ssize(bad) <= allowed) return;
  std::string first;
  for (size_t i = 0; i < std::min<size_t>(bad.size(), 3); ++i) {
    first += fmt::format("\n  {}: {}", bad[i].place, bad[i].reason);
  }
  fail(ErrorKind::data,
       "data: {} of {} could not be used, more than the {} that data.max_bad {} allows. "
       "Correct or remove them, or raise data.max_bad. The first:{}",
       bad.size(), counted(total, "row"), allowed, max_bad, MessageLines{first});
}

}  // namespace whisker
