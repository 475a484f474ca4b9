#include "data/sequences/rows_input.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "core/work_progress.h"
#include "data/files/check_reading.h"
#include "data/files/file_walk.h"
#include "data/sequences/label_reading.h"
#include "data/sequences/table_checks.h"
#include "data/sequences/table_header.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace whisker {

namespace {

// The values of the rows `indices`, for each feature.
std::vector<std::vector<double>> values_of(const LabelledRows& rows,
                                           std::span<const int64_t> indices) {
  std::vector<std::vector<double>> values(static_cast<size_t>(rows.features));
  for (const int64_t index : indices) {
    const std::vector<double>& row = rows.values[static_cast<size_t>(index)];
    for (size_t i = 0; i < row.size(); ++i) values[i % values.size()].push_back(row[i]);
  }
  return values;
}

}  // namespace

std::vector<std::string> RowsInput::value_names() const {
  if (features == 1) return {"values"};
  std::vector<std::string> all;
  for (int64_t i = 1; i <= features; ++i) all.push_back(fmt::format("value {} of a step", i));
  return all;
}

std::string RowsInput::json() const {
  JsonWriter json;
  json.begin_object().field("kind", "rows").field("label_column", label_column);
  json.field("features", features).field("most_steps", most_steps);
  write(json, "scaling", scaling);
  write_header(json, header);
  if (!names.empty()) json.list("names", names);
  if (class_like) json.field("least_steps", least_steps).field("class_like", *class_like);
  return json.end_object().str();
}

RowsInput RowsInput::from_json(std::string_view text, const std::string& name) {
  const JsonValue json =
      JsonValue::parse(text, {.name = name + ": sequence", .kind = ErrorKind::checkpoint});
  RowsInput input{.label_column = json.at("label_column").as_string(),
                  .features = json.at("features").as_int(1, 1'000'000),
                  .most_steps = json.at("most_steps").as_int(1, 1'000'000'000),
                  .scaling = read_scaling(json.at("scaling")),
                  .header = read_header(json),
                  .names = read_names(json)};
  if (const JsonValue* const class_like = json.find("class_like")) {
    input.class_like = class_like->as_double(0, 1);
    input.least_steps = json.at("least_steps").as_int(1, input.most_steps);
  }
  if (std::ssize(input.scaling) != input.features) {
    fail(ErrorKind::checkpoint, "{}: sequence: scaling: expected one per feature, {}, got {}", name,
         input.features, input.scaling.size());
  }
  return input;
}

namespace {

constexpr size_t rows_of_proof = 12;  // fewer prove nothing of a column

// Whether the values of all rows in one column are different whole numbers of rows, from 0 or 1.
bool counts_rows(std::span<const std::vector<double>> rows, size_t column, int64_t count) {
  std::vector<bool> seen(static_cast<size_t>(count) + 1);
  for (const std::vector<double>& row : rows) {
    const double value = column < row.size() ? row[column] : -1;
    if (value < 0 || value > static_cast<double>(count) || value != std::floor(value)) return false;
    const auto number = static_cast<size_t>(value);
    if (seen[number]) return false;
    seen[number] = true;
  }
  return rows.size() >= rows_of_proof;
}

// Whether a column of this name holds an index, as spreadsheets and data frames write one.
bool is_index_name(std::string_view name, size_t column) {
  const std::string small = to_small_letters(name);
  return small == "id" || small == "index" || small.starts_with("unnamed:") ||
         (small.empty() && column == 0);
}

// "column 2 ('kind')".
std::string titled(const RowFile& file, size_t column) {
  return fmt::format("column {}{}", column + 1,
                     file.names.empty() ? "" : fmt::format(" ({})", excerpt(file.names[column])));
}

// Columns that are values as others are, but may number or label the rows.
void note_doubtful_columns(const RowFile& file, std::span<const size_t> columns, size_t label,
                           LabelledRows& all) {
  const auto note = [&](size_t column, std::string_view reason, std::string_view remedy) {
    all.notes.push_back(fmt::format("{}: {} is read as a value, although {}: {}", file.name,
                                    titled(file, column), reason, remedy));
  };
  const bool named = !file.names.empty();
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool counts = counts_rows(all.values, i, file.count);
    if (!counts && !(named && is_index_name(file.names[columns[i]], columns[i]))) continue;
    note(columns[i], counts ? "it numbers the rows" : "its name is that of an index",
         "remove the column if it says nothing about other rows");
  }
  const auto other = named ? column_called_label(file.names, label) : std::nullopt;
  if (!other) return;
  note(*other, "its name is that of a label",
       fmt::format("remove the column, or name it in data.label_column in place of column {}",
                   label + 1));
}

// Where one column alone keeps all rows from being read, by a few words as labels are.
void refuse_words_elsewhere(const RowFile& file, size_t label) {
  std::set<std::string_view> words;
  std::optional<size_t> column;
  for (const CsvRow& row : file.rows) {
    size_t worded = 0;
    while (worded < row.fields.size() && (worded == label || number_of(row.fields[worded]))) {
      ++worded;
    }
    if (worded == row.fields.size() || (column && *column != worded)) return;
    const std::string& cell = row.fields[worded];
    if (cell.empty() || std::string_view("-?0123456789").find(cell[0]) != std::string_view::npos) {
      return;  // a missing value, a date, a number with a unit
    }
    column = worded;
    words.insert(cell);
  }
  if (!column || words.size() < 2 || 2 * words.size() > file.rows.size()) return;
  const std::vector<std::string> some(words.begin(), words.end());
  fail(
      ErrorKind::data,
      "{}: {} is read as the label, and {} as a value, but it holds words in all rows: {}. If they "
      "are the labels: data.label_column={} (of evaluate and classify: --label-column). If not, "
      "remove the column.",
      file.name, titled(file, label), titled(file, *column), quoted_list(some), *column + 1);
}

// Labels that are hardly classes: another one in each row, or numbers with decimals.
void check_labels(const RowFile& file, size_t label, LabelledRows& all) {
  const size_t rows = all.labels.size();
  if (rows < rows_of_proof) return;
  constexpr std::string_view remedy = "data.label_column names another column";
  const std::set<std::string_view> different(all.labels.begin(), all.labels.end());
  check_reading(all.rules, all.notes, [&] {
    if (different.size() < rows) return;
    fail(ErrorKind::data,
         "{}: {} is read as the label, and no two of the {} rows have the same: {}.", file.name,
         titled(file, label), rows, remedy);
  });
  const auto decimals = std::ranges::count_if(all.labels, [](const std::string& text) {
    const std::optional<double> number = number_of(text);
    return number && *number != std::floor(*number);
  });
  if (2 * decimals <= std::ssize(all.labels)) return;
  all.notes.push_back(fmt::format(
      "{}: {} is read as the label, although {} of {} rows hold a number with decimals in it: {}",
      file.name, titled(file, label), decimals, rows, remedy));
}

}  // namespace

LabelledRows labelled_rows(RowFile file, const LabelledRowsOptions& options) {
  const bool labelled = options.label_column != no_label_column;
  const bool named = labelled && !is_column_number(options.label_column);
  const size_t width = file.rows.front().fields.size();
  const size_t label = labelled ? find_column(file, options.label_column) : width;
  drop_rows_header(file, options.header, named, label, options.classes);
  std::vector<size_t> value_columns;
  for (size_t i = 0; i < width; ++i) {
    if (i != label) value_columns.push_back(i);
  }
  LabelledRows all;
  all.features = options.features;
  all.name = file.name;
  all.rules = file.rules;
  if (label > 0 && labelled) refuse_numbers_as_names(file, std::array{options.label_column});
  refuse_thousands(file, value_columns);
  all.names = names_of(file, value_columns, options.names);
  all.notes = std::move(file.notes);
  int64_t padded = 0;
  for (const CsvRow& row : file.rows) {
    count_progress();
    size_t end = row.fields.size();
    bool shorter = false;
    while (end > 0 && (end - 1 == label || is_padding(row.fields[end - 1], file.rules))) {
      --end;
      shorter = shorter || end != label;
    }
    padded += shorter ? 1 : 0;
    std::vector<double> values;
    std::string fault;
    for (size_t i = 0; i < end && fault.empty(); ++i) {
      if (i == label) continue;
      const std::optional<double> value = number_of(row.fields[i]);
      if (value) {
        values.push_back(*value);
      } else {
        fault = fmt::format("expected a number in column {}, got {}{}", i + 1,
                            excerpt(row.fields[i]), comma_note(row.fields[i]));
      }
    }
    if (fault.empty() && values.empty()) fault = "the row holds no values";
    if (fault.empty() && std::ssize(values) % options.features != 0) {
      fault = fmt::format("expected {} per step, got {} in total",
                          counted(options.features, "value"), values.size());
    }
    if (fault.empty() && labelled && row.fields[label].empty()) fault = "the label is empty";
    if (!fault.empty()) {
      file.refuse(row, std::move(fault));
      continue;
    }
    if (labelled) all.labels.push_back(label_text(row.fields[label]));
    all.values.push_back(std::move(values));
    all.places.push_back(file.place(row));
  }
  if (all.values.empty() && labelled) refuse_words_elsewhere(file, label);
  check_bad_rows(file.bad, file.count, options.max_bad);
  if (all.values.empty()) {
    fail(ErrorKind::data, "{}: no row could be used{}", file.name,
         file.bad.empty()
             ? std::string()
             : fmt::format(". The first, line {}: {}", file.bad[0].line, file.bad[0].reason));
  }
  if (padded > 0) {
    all.notes.push_back(fmt::format(
        "{}: empty fields or NaN at the end of {} of {} are padding: {} shorter (elsewhere they "
        "make a row unusable)",
        file.name, padded, counted(file.count, "row"),
        padded == 1 ? "this row is" : "these rows are"));
  }
  // Only training data are checked: others follow them.
  if (labelled && options.classes.empty() && options.names.empty()) {
    check_labels(file, label, all);
    note_doubtful_columns(file, value_columns, label, all);
  }
  all.bad = std::move(file.bad);
  return all;
}

LabelledRows read_labelled_rows(const std::filesystem::path& path,
                                const LabelledRowsOptions& options) {
  return labelled_rows(read_rows(path, options.rules), options);
}

void fit_label_evidence(const LabelledRows& rows, std::span<const int64_t> indices,
                        std::span<const std::string> classes, RowsInput& input) {
  if (indices.empty()) return;
  const size_t column =
      is_column_number(input.label_column) ? column_position(input.label_column) : 0;
  int64_t like = 0, least = std::numeric_limits<int64_t>::max();
  for (const int64_t index : indices) {
    const std::vector<double>& values = rows.values[static_cast<size_t>(index)];
    const int64_t steps = std::ssize(values) / rows.features;
    least = std::min(least, steps);
    input.most_steps = std::max(input.most_steps, steps);
    if (column >= values.size()) continue;
    like += find_name(classes, fmt::format("{}", values[column])).index ? 1 : 0;
  }
  input.least_steps = least;
  // With half a row more that does and half a row that does not: none of few says little.
  input.class_like = (static_cast<double>(like) + 0.5) / (static_cast<double>(indices.size()) + 1);
}

std::vector<std::string> unlike_training(const LabelledRows& rows, const RowsInput& input) {
  std::vector<std::string> notes;
  const auto all = std::ssize(rows.values);
  int64_t unlike = 0, shortest = std::numeric_limits<int64_t>::max(), longest = 0;
  for (const std::vector<double>& values : rows.values) {
    const int64_t steps = std::ssize(values) / rows.features;
    unlike += steps < input.least_steps || steps > input.most_steps ? 1 : 0;
    shortest = std::min(shortest, steps);
    longest = std::max(longest, steps);
  }
  const auto range = [](int64_t least, int64_t most) {
    return least == most ? counted(least, "step") : fmt::format("{} to {} steps", least, most);
  };
  if (2 * unlike > all) {
    notes.push_back(
        fmt::format("{}: {} of {} longer or shorter than those of training: {} here, {} "
                    "there",
                    rows.name, unlike, counted(all, "row is", "rows are"), range(shortest, longest),
                    range(input.least_steps, input.most_steps)));
  }
  std::vector<int64_t> indices(rows.values.size());
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<Spread> spreads;
  for (const auto& of_feature : values_of(rows, indices)) spreads.push_back(Spread::of(of_feature));
  const std::string note = unlike_note(spreads, input.scaling, input.value_names());
  if (!note.empty()) notes.push_back(fmt::format("{}: {}", rows.name, note));
  return notes;
}

std::vector<Scaling> fit_scaling(const LabelledRows& rows, std::span<const int64_t> indices) {
  std::vector<Scaling> scaling;
  for (const std::vector<double>& of_feature : values_of(rows, indices)) {
    scaling.push_back(Scaling::fitted_to(of_feature, rows.rules));
  }
  return scaling;
}

SequenceSet scaled_sequences(const LabelledRows& rows, std::span<const int64_t> indices,
                             std::span<const Scaling> scaling) {
  SequenceSet set;
  set.features = rows.features;
  for (const int64_t index : indices) {
    const std::vector<double>& row = rows.values[static_cast<size_t>(index)];
    std::vector<float> scaled;
    for (size_t i = 0; i < row.size(); ++i) {
      scaled.push_back(static_cast<float>(scaling[i % scaling.size()].apply(row[i])));
    }
    set.add_values(scaled);
  }
  return set;
}

}  // namespace whisker
