#include "data/sequences/numbered_header.h"

#include "core/io/unicode.h"
#include "data/sequences/scaling.h"
#include "data/sequences/table_header.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace whisker {
namespace {

using Cells = std::vector<std::string>;

// Numbers that grow by equal steps, with at most one cell between them that is none.
struct Ramp {
  double first = 0, last = 0, step = 1;
  size_t count = 0;
  std::optional<size_t> other;  // the cell that is no number
};

// The ramp of `cells` but for `left_out`.
std::optional<Ramp> ramp_of(const Cells& cells, std::optional<size_t> left_out = {}) {
  Ramp ramp;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i == left_out) continue;
    const std::optional<double> value = number_of(cells[i]);
    if (!value) {
      const bool index = i == 0 && cells[i].empty();  // as pandas calls the column of its index
      if (ramp.other || !(index || is_column_name(cells[i]))) return std::nullopt;
      ramp.other = i;
      continue;
    }
    if (ramp.count == 0) ramp.first = *value;
    if (ramp.count == 1) ramp.step = *value - ramp.first;
    const bool equal =
        ramp.count < 2 || std::abs(*value - ramp.last - ramp.step) <= 1e-6 * std::abs(ramp.step);
    if (!equal) return std::nullopt;
    ramp.last = *value;
    ++ramp.count;
  }
  if (ramp.count == 0 || ramp.step <= 0) return std::nullopt;
  return ramp;
}

enum class Kind : uint8_t { nothing, number, digits, words };

Kind kind_of(const std::string& cell) {
  if (number_of(cell)) return Kind::number;
  if (!is_column_name(cell)) return Kind::nothing;
  return cell[0] >= '0' && cell[0] <= '9' ? Kind::digits : Kind::words;  // digits: a date, a time
}

// Whether all cells below the first are of one kind, and the first is not. `text`: no dates and
// times stand there; texts may begin with digits.
bool is_of_other_kind(const RowFile& file, size_t column, bool text) {
  const auto kind = [&](const CsvRow& row) {
    const Kind own = kind_of(row.fields[column]);
    return text && own == Kind::digits ? Kind::words : own;
  };
  const Kind below = kind(file.rows[1]);
  return below != Kind::nothing && kind(file.rows[0]) != below &&
         std::all_of(file.rows.begin() + 2, file.rows.end(),
                     [&](const CsvRow& row) { return kind(row) == below; });
}

// Whether all numbers of a row may be numbers of the columns that `first` counts.
bool may_count(const Cells& cells, const Ramp& first) {
  return std::ranges::all_of(cells, [&](const std::string& cell) {
    const std::optional<double> value = number_of(cell);
    return !value ||
           (*value == std::round(*value) && *value >= first.first && *value <= first.last);
  });
}

// Whether the first column counts the rows, the first row among them.
bool counts_rows(const RowFile& file) {
  double expected = number_of(file.rows.front().fields[0]).value_or(0);
  return std::ranges::all_of(
      file.rows, [&](const CsvRow& row) { return number_of(row.fields[0]) == expected++; });
}

}  // namespace

NumberedHeader find_numbered_header(const RowFile& file, size_t label,
                                    std::span<const std::string> classes) {
  constexpr size_t few = 3, several = 5, many = 8;
  if (file.rules < 3 || file.rows.size() < 2) return NumberedHeader::no;
  const Cells& first = file.rows.front().fields;
  const std::optional<Ramp> ramp = ramp_of(first);
  if (!ramp) return NumberedHeader::no;
  const auto below = std::span(file.rows).subspan(1);
  const bool text = label < first.size() && ramp->other != label;
  const bool word_above_words = ramp->other && !is_of_other_kind(file, *ramp->other, text);
  if (ramp->other == label) {
    const bool is_class = find_name(classes, first[label]).index ||
                          std::ranges::any_of(below, [&](const CsvRow& row) {
                            return row.fields[label] == first[label];
                          });
    if (is_class) return NumberedHeader::no;
  }
  const bool by_ones = ramp->step == 1;
  const bool from_start = by_ones && (ramp->first == 0 || ramp->first == 1);
  const bool of_other_kind = [&] {
    for (size_t i = 0; i < first.size(); ++i) {
      if ((ramp->count > 1 || i == ramp->other) && is_of_other_kind(file, i, text)) return true;
    }
    return false;
  }();
  if (from_start && of_other_kind) return NumberedHeader::yes;
  // An example may begin with its number, 1, and hold a text: "1,2,3,a text".
  const bool is_text = word_above_words && ramp->other != label;
  const size_t enough =
      from_start ? (is_text ? several : few) : (by_ones && ramp->other ? few : several);
  if (ramp->count < enough) return NumberedHeader::no;
  for (const CsvRow& row : below) {
    for (const auto left_out : {std::optional<size_t>(), std::optional(label)}) {
      const std::optional<Ramp> other = ramp_of(row.fields, left_out);
      if (other && other->count >= few) return NumberedHeader::no;
    }
  }
  const bool alike = by_ones && ramp->count < many &&
                     (counts_rows(file) || std::ranges::any_of(below, [&](const CsvRow& row) {
                        return may_count(row.fields, *ramp);
                      }));
  return alike ? NumberedHeader::unclear : NumberedHeader::yes;
}

}  // namespace whisker
