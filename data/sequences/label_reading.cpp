// Each reading gets a likelihood; the ratio of the two decides, and where it is small nobody does.
#include "data/sequences/label_reading.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "data/files/file_walk.h"
#include "data/sequences/numbered_header.h"
#include "data/sequences/table_header.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace whisker {
namespace {

// Frequencies: of a label that no class has, and of a length that no training row has.
constexpr double rare = 0.01;
constexpr double decisive = 20;  // times as likely

// What the rows that fit both readings hold.
struct Evidence {
  int64_t only_labelled = 0, only_unlabelled = 0, both = 0;  // rows that fit them
  int64_t in_classes = 0;                                    // rows of both
  std::set<std::string> classes, others;  // what stands in the column; sorted rows repeat it
  bool odd_labelled = false, odd_unlabelled = false;  // has a length that training had not
  bool all_longest = true;                            // as unlabelled rows

  std::string text() const {
    if (both == 1) {
      return fmt::format("the one row that could be either holds {} class in it",
                         in_classes == 1 ? "a" : "no");
    }
    if (both > 1) {
      return fmt::format("{} of the {} rows that could be either hold a class in it", in_classes,
                         both);
    }
    const int64_t rows = only_labelled + only_unlabelled;
    if (rows == 0) return "no row can be read in either way";
    if (only_labelled > 0 && only_unlabelled > 0) {
      return fmt::format("{} can be read with one only, {} without one only",
                         counted(only_labelled, "row"), only_unlabelled);
    }
    return fmt::format("{} can be read with{} one", none_of(rows, "row"),
                       only_labelled > 0 ? "out" : "");
  }
};

class EvidenceCounter {
 public:
  EvidenceCounter(const RowsInput& input, std::span<const std::string> classes, size_t column)
      : input_(input), classes_(classes), column_(column) {}

  void add(const CsvRow& row) {
    const std::string& cell = row.fields[column_];
    const int64_t unlabelled = number_of(cell) || is_padding(cell) ? steps(row, false) : 0;
    const int64_t labelled = cell.empty() ? 0 : steps(row, true);
    if (unlabelled == 0 && labelled == 0) return;  // bad, however it is read
    if (unlabelled == 0 || labelled == 0) {
      ++(labelled > 0 ? found_.only_labelled : found_.only_unlabelled);
      return;
    }
    ++found_.both;
    std::string text = label_text(cell);
    if (find_name(classes_, text).index) {
      ++found_.in_classes;
      found_.classes.insert(std::move(text));
    } else {
      found_.others.insert(std::move(text));
    }
    found_.odd_labelled = found_.odd_labelled || is_odd(labelled);
    found_.odd_unlabelled = found_.odd_unlabelled || is_odd(unlabelled);
    found_.all_longest = found_.all_longest && unlabelled == input_.most_steps;
  }

  const Evidence& found() const { return found_; }

  /// The logarithm of how many times as likely labelled rows are.
  double score() const {
    constexpr double certain = 1e6;
    const bool labelled = found_.only_labelled > 0, unlabelled = found_.only_unlabelled > 0;
    if (labelled != unlabelled) return labelled ? certain : -certain;
    // Older weights say neither how often a value is like a class nor the shortest row.
    const double class_like = std::clamp(input_.class_like.value_or(0.5), 1e-6, 1 - rare);
    const auto count = [](const std::set<std::string>& texts) {
      return static_cast<double>(texts.size());
    };
    double score = count(found_.classes) * (std::log(1 - rare) - std::log(class_like)) +
                   count(found_.others) * (std::log(rare) - std::log(1 - class_like));
    const bool of_one_length = !input_.class_like && found_.both > 0 && found_.all_longest;
    if (found_.odd_labelled || of_one_length) score += std::log(rare);
    if (found_.odd_unlabelled) score -= std::log(rare);
    return score;
  }

 private:
  /// The steps that labelled_rows() reads of the row, with or without a label; 0 where it cannot.
  int64_t steps(const CsvRow& row, bool labelled) const {
    const auto is_label = [&](size_t i) { return labelled && i == column_; };
    size_t end = row.fields.size();
    while (end > 0 && (is_label(end - 1) || is_padding(row.fields[end - 1]))) --end;
    int64_t count = 0;
    for (size_t i = 0; i < end; ++i) {
      if (is_label(i)) continue;
      if (!number_of(row.fields[i])) return 0;
      ++count;
    }
    return count % input_.features == 0 ? count / input_.features : 0;
  }
  bool is_odd(int64_t steps) const {
    return steps > input_.most_steps || steps < input_.least_steps;
  }

  const RowsInput& input_;
  std::span<const std::string> classes_;
  size_t column_;
  Evidence found_;
};

}  // namespace

std::string label_text(const std::string& field) {
  const std::optional<double> number = number_of(field);
  return number ? fmt::format("{}", *number) : field;
}

bool is_padding(std::string_view field, int rules) {
  if (rules == 1) return field.empty();
  const size_t begin = field.find_first_not_of(' ');
  if (begin == std::string_view::npos) return true;
  field = field.substr(begin, field.find_last_not_of(' ') + 1 - begin);
  return to_small_letters(field) == "nan";
}

std::string find_label_column(RowFile& file, const RowsInput& input,
                              std::span<const std::string> classes) {
  const std::string& column = input.label_column;
  const std::vector<std::string>& first = file.rows.front().fields;
  const auto unlabelled = [&](std::string note) {
    const auto other = column_called_label(first, first.size());
    if (other && !find_name(classes, first[*other]).index) {
      fail(
          ErrorKind::data,
          "{}; but the first row calls column {} {}. Add --label-column {} or --label-column none.",
          note, *other + 1, excerpt(first[*other]), *other + 1);
    }
    file.notes.push_back(std::move(note));
    return std::string(no_label_column);
  };
  if (!is_column_number(column)) {
    if (named_column(file.rows.front(), column, file.name)) return column;
    if (!nearest_name(column, first).empty()) find_column(file, column);
    return unlabelled(fmt::format(
        "{}: rows are read without a label, as the first row has no {} (--label-column NAME)",
        file.name, excerpt(column)));
  }
  const auto position = column_position(column);
  if (position >= first.size()) {
    return unlabelled(fmt::format(
        "{}: rows are read without a label, as they have no column {} (--label-column N)",
        file.name, column));
  }
  EvidenceCounter counter(input, classes, position);
  const bool headed = find_numbered_header(file, position, classes) == NumberedHeader::yes;
  for (size_t i = headed ? 1 : 0; i < file.rows.size(); ++i) counter.add(file.rows[i]);
  const double score = counter.score();
  const std::string holds = counter.found().text();
  if (std::abs(score) < std::log(decisive)) {
    fail(ErrorKind::data,
         "{}: column {} may be the label or a value: {}. Add --label-column {} or --label-column "
         "none.",
         file.name, column, holds, column);
  }
  if (score < 0) {
    return unlabelled(fmt::format(
        "{}: rows are read without a label in column {}: {} (--label-column {}: with it)",
        file.name, column, holds, column));
  }
  file.notes.push_back(fmt::format(
      "{}: column {} is read as the label: {} (--label-column none: rows without labels)",
      file.name, column, holds));
  return column;
}

}  // namespace whisker
