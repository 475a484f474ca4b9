// One pass over the text, field by field.
#include "data/files/csv.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "core/work_progress.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace whisker {
namespace {

class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view name, char separator)
      : text_(text), name_(name), separator_(separator) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }

  std::vector<CsvRow> read(const RefuseRow& refuse) {
    std::vector<CsvRow> rows;
    while (!text_.empty()) {
      CsvRow row = read_row();
      count_progress();
      if (row.fields.size() == 1 && row.fields.front().empty()) continue;
      if (!rows.empty() && row.fields.size() != rows.front().fields.size()) {
        refuse(row.line, row.stray_cr
                             ? std::string(stray_cr_reason)
                             : field_count_reason(rows.front().fields.size(), row.fields.size(),
                                                  quoting_rule(separator_)));
        continue;
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  CsvRow read_row() {
    CsvRow row{.line = line_, .fields = {}};
    for (;;) {
      if (text_.starts_with('"')) {
        row.fields.push_back(read_quoted());
      } else {
        row.fields.push_back(read_plain());
        row.stray_cr = row.stray_cr || row.fields.back().find('\r') != std::string::npos;
      }
      if (text_.starts_with(separator_)) {
        text_.remove_prefix(1);
        continue;
      }
      const bool cr = text_.starts_with('\r');
      if (cr) text_.remove_prefix(1);
      if (text_.starts_with('\n')) {
        text_.remove_prefix(1);
        ++line_;
      } else if (cr && !text_.empty()) {
        fail(ErrorKind::data, "{}:{}: {}.", name_, line_, stray_cr_reason);
      } else if (!text_.empty()) {
        fail(ErrorKind::data, "{}:{}: expected {} or the line's end after a closing quote.", name_,
             line_, separator_ == ',' ? "a comma" : fmt::format("'{}'", separator_));
      }
      return row;
    }
  }

  std::string read_plain() {
    const char ends[] = {separator_, '\n'};
    std::string field(text_.substr(0, text_.find_first_of(std::string_view(ends, 2))));
    text_.remove_prefix(field.size());
    if (!text_.starts_with(separator_) && field.ends_with('\r')) field.pop_back();
    if (field.find('"') != std::string::npos) {
      fail(ErrorKind::data, "{}:{}: a field with a quote in it must be quoted itself.", name_,
           line_);
    }
    return field;
  }

  std::string read_quoted() {
    const int begin = line_;
    std::string field;
    text_.remove_prefix(1);
    for (;;) {
      const size_t quote = text_.find('"');
      if (quote == std::string_view::npos) {
        fail(ErrorKind::data, "{}:{}: the quoted field that begins here has no closing quote.",
             name_, begin);
      }
      const std::string_view part = text_.substr(0, quote);
      line_ += static_cast<int>(std::count(part.begin(), part.end(), '\n'));
      field += part;
      text_.remove_prefix(quote + 1);
      if (!text_.starts_with('"')) return field;
      field += '"';
      text_.remove_prefix(1);
    }
  }

  std::string_view text_;
  std::string_view name_;
  char separator_;
  int line_ = 1;
};

// "-1", "+2.5e3": no formula, although a sign begins it.
bool is_signed_number(std::string_view field) {
  if (field.starts_with('+') || field.starts_with('-')) field.remove_prefix(1);
  if (field.empty() || (field[0] != '.' && (field[0] < '0' || field[0] > '9'))) return false;
  double ignored = 0;
  const char* const end = field.data() + field.size();
  return std::from_chars(field.data(), end, ignored).ptr == end;
}

// Behind apostrophes, of which csv_field() adds one.
bool is_formula(std::string_view field) {
  field.remove_prefix(std::min(field.find_first_not_of('\''), field.size()));
  return !field.empty() && std::string_view("=+-@\t\r").find(field.front()) != field.npos;
}

}  // namespace

std::string csv_field(std::string_view field) {
  std::string plain(field);
  if (is_formula(field) && !is_signed_number(field)) plain.insert(plain.begin(), '\'');
  if (plain.find_first_of(",\"\r\n") == std::string::npos) return plain;
  std::string text = "\"";
  for (const char c : plain) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

std::string csv_text(std::string_view field) {
  if (field.starts_with('\'') && is_formula(field)) field.remove_prefix(1);
  return std::string(field);
}

std::string field_count_reason(size_t expected, size_t got, std::string_view ends) {
  return fmt::format("expected {} as in the first row, got {}{}{}",
                     counted(static_cast<int64_t>(expected), "field"), got,
                     got > expected ? ": " : "", got > expected ? ends : "");
}

std::string quoting_rule(char separator) {
  return fmt::format("a field with a {} in it must be in quotes", separator == ','   ? "comma"
                                                                  : separator == ';' ? "semicolon"
                                                                                     : "tab");
}

char csv_separator(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  for (const char separator : {',', ';', '\t'}) {
    if (line.find(separator) != std::string_view::npos) return separator;
  }
  return ',';
}

std::optional<size_t> named_column(const CsvRow& header, std::string_view column,
                                   std::string_view file) {
  const std::string small = to_small_letters(column);
  std::vector<size_t> same, other_case;  // numbers from 1
  for (size_t i = 0; i < header.fields.size(); ++i) {
    const std::string& field = header.fields[i];
    if (field != column && to_small_letters(field) != small) continue;
    (field == column ? same : other_case).push_back(i + 1);
  }
  const std::vector<size_t>& found = same.empty() ? other_case : same;
  if (found.size() > 1) {
    fail(ErrorKind::data, "{}:{}: columns {} are called {}{}. Rename all but one.", file,
         header.line, fmt::join(found, " and "), excerpt(column),
         same.empty() ? " in another case" : "");
  }
  if (found.empty()) return std::nullopt;
  return found.front() - 1;
}

void check_listed_path(const CsvRow& row, std::string_view path, std::string_view file) {
  if (path.find('\0') == std::string_view::npos) return;
  fail(ErrorKind::data,
       "{}:{}: expected a path, got {}, which holds a NUL byte. No path does: write the path "
       "without it.",
       file, row.line, excerpt(path));
}

std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name, char separator) {
  const auto refuse = [&](int line, std::string_view reason) {
    fail(ErrorKind::data, "{}:{}: {}.", name, line, reason);
  };
  std::vector<CsvRow> rows = parse_csv(text, name, refuse, separator);
  for (const CsvRow& row : rows) {
    if (row.stray_cr) refuse(row.line, stray_cr_reason);
  }
  return rows;
}

std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name, const RefuseRow& refuse,
                              char separator) {
  return CsvReader(text, name, separator).read(refuse);
}

}  // namespace whisker
