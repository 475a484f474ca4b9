// One pass over the text, field by field.
#include "data/files/csv.h"

#include "core/error.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view name) : text_(text), name_(name) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }

  std::vector<CsvRow> read(const RefuseRow& refuse) {
    std::vector<CsvRow> rows;
    while (!text_.empty()) {
      CsvRow row = read_row();
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
      if (text_.starts_with(',')) {
        text_.remove_prefix(1);
        continue;
      }
      if (text_.starts_with('\r')) text_.remove_prefix(1);
      if (text_.starts_with('\n')) {
        text_.remove_prefix(1);
        ++line_;
      } else if (!text_.empty()) {
        fail(ErrorKind::data, "{}:{}: expected a comma or the line's end after a closing quote.",
             name_, line_);
      }
      return row;
    }
  }

  std::string read_plain() {
    std::string field(text_.substr(0, text_.find_first_of(",\n")));
    text_.remove_prefix(field.size());
    if (!text_.starts_with(',') && field.ends_with('\r')) field.pop_back();
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
  int line_ = 1;
};

}  // namespace

std::string csv_field(std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(field);
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name) {
  return parse_csv(text, name, [&](int line, const std::string& reason) {
    fail(ErrorKind::data, "{}:{}: {}.", name, line, reason);
  });
}

std::vector<CsvRow> parse_csv(std::string_view text, std::string_view name,
                              const RefuseRow& refuse) {
  return CsvReader(text, name).read(refuse);
}

}  // namespace whisker
