// One pass over the text, field by field.
#include "data/files/csv.h"

#include "core/error.h"
#include "core/work_progress.h"

#include <algorithm>
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
        refuse(row.line, fmt::format("expected {} fields as in the first row, got {}",
                                     rows.front().fields.size(), row.fields.size()));
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
      row.fields.push_back(text_.starts_with('"') ? read_quoted() : read_plain());
      if (text_.starts_with(separator_)) {
        text_.remove_prefix(1);
        continue;
      }
      if (text_.starts_with('\r')) text_.remove_prefix(1);
      if (text_.starts_with('\n')) {
        text_.remove_prefix(1);
        ++line_;
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

// Behind apostrophes, of which csv_field() adds one.
bool is_formula(std::string_view field) {
  field.remove_prefix(std::min(field.find_first_not_of('\''), field.size()));
  return !field.empty() && std::string_view("=+-@\t\r").find(field.front()) != field.npos;
}

}  // namespace

std::string csv_field(std::string_view field) {
  std::string plain(field);
  if (is_formula(field)) plain.insert(plain.begin(), '\'');
  if (plain.find_first_of(",\"\r\n") == std::string::npos) return plain;
  std::string text = "\"";
  for (const char c : plain) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

std::string csv_text(std::string_view field) {
  if (field.starts_with('\'') && is_formula(field)) field.remove_prefix(1);
  return std::string(field);
}

char csv_separator(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  for (const char separator : {',', ';', '\t'}) {
    if (line.find(separator) != std::string_view::npos) return separator;
  }
  return ',';
}

std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name, char separator) {
  const auto refuse = [&](int line, const std::string& reason) {
    fail(ErrorKind::data, "{}:{}: {}.", name, line, reason);
  };
  return parse_csv(text, name, refuse, separator);
}

std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name, const RefuseRow& refuse,
                              char separator) {
  return CsvReader(text, name, separator).read(refuse);
}

}  // namespace whisker
