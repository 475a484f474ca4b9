#include "data/rows_input.h"

#include "core/error.h"
#include "core/io/json.h"

#include <cmath>
#include <utility>

namespace whisker {

std::string RowsInput::json() const {
  JsonWriter json;
  json.begin_object().field("kind", "rows").field("label_column", label_column);
  json.field("most_steps", most_steps).field("mean", scaling.mean);
  return json.field("deviation", scaling.deviation).end_object().str();
}

RowsInput RowsInput::from_json(std::string_view text, const std::string& name) {
  const JsonValue json = JsonValue::parse(text, {.name = name, .kind = ErrorKind::checkpoint});
  RowsInput input{.label_column = json.at("label_column").as_string(),
                  .most_steps = json.at("most_steps").as_int(),
                  .scaling = {.mean = json.at("mean").as_double(),
                              .deviation = json.at("deviation").as_double()}};
  if (input.most_steps < 1) {
    fail(ErrorKind::checkpoint, "{}: sequence: most_steps: expected at least 1, got {}", name,
         input.most_steps);
  }
  return input;
}

LabelledRows read_labelled_rows(const std::filesystem::path& path, const std::string& label_column,
                                double max_bad, std::optional<int64_t> unlabelled) {
  RowFile file = read_rows(path);
  const CsvRow header = file.rows.front();
  const bool labelled = !unlabelled || std::ssize(header.fields) != *unlabelled;
  const size_t label =
      labelled ? find_column(header, label_column, file.name) : header.fields.size();
  bool any_number = false;
  for (size_t i = 0; i < header.fields.size(); ++i) {
    any_number = any_number || (i != label && number_of(header.fields[i]));
  }
  if (!any_number) file.rows.erase(file.rows.begin());  // a row of names
  LabelledRows all;
  for (const CsvRow& row : file.rows) {
    size_t end = row.fields.size();
    while (end > 0 && (row.fields[end - 1].empty() || end - 1 == label)) --end;
    std::vector<double> values;
    std::string fault;
    for (size_t i = 0; i < end && fault.empty(); ++i) {
      if (i == label) continue;
      const std::optional<double> value = number_of(row.fields[i]);
      if (value) {
        values.push_back(*value);
      } else {
        fault = fmt::format("expected a number in column {}, got '{}'", i + 1, row.fields[i]);
      }
    }
    if (fault.empty() && values.empty()) fault = "the row holds no values";
    if (fault.empty() && labelled && row.fields[label].empty()) fault = "the label is empty";
    if (!fault.empty()) {
      file.refuse(row, std::move(fault));
      continue;
    }
    if (labelled) {
      const std::optional<double> number = number_of(row.fields[label]);
      all.labels.push_back(number ? fmt::format("{}", *number) : row.fields[label]);
    }
    all.values.push_back(std::move(values));
    all.places.push_back(file.place(row));
  }
  check_bad_rows(file.bad, std::ssize(file.rows), max_bad);
  if (all.values.empty()) fail(ErrorKind::data, "{}: no row of it could be used", file.name);
  all.bad = std::move(file.bad);
  return all;
}

SequenceSet scaled_sequences(const LabelledRows& rows, std::span<const int64_t> indices,
                             const Scaling& scaling) {
  SequenceSet set;
  set.features = 1;
  for (const int64_t index : indices) {
    std::vector<float> scaled;
    for (const double value : rows.values[static_cast<size_t>(index)]) {
      scaled.push_back(static_cast<float>(scaling.apply(value)));
    }
    set.add_values(scaled);
  }
  return set;
}

}  // namespace whisker
