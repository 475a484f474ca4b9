#include "data/sequences/rows_input.h"

#include "core/error.h"
#include "core/io/json.h"

#include <cmath>
#include <utility>

namespace whisker {

std::string RowsInput::json() const {
  JsonWriter json;
  json.begin_object().field("kind", "rows").field("label_column", label_column);
  json.field("features", features).field("most_steps", most_steps);
  write(json, "scaling", scaling);
  return json.end_object().str();
}

RowsInput RowsInput::from_json(std::string_view text, const std::string& name) {
  const JsonValue json =
      JsonValue::parse(text, {.name = name + ": sequence", .kind = ErrorKind::checkpoint});
  RowsInput input{.label_column = json.at("label_column").as_string(),
                  .features = json.at("features").as_int(1, 1'000'000),
                  .most_steps = json.at("most_steps").as_int(1, 1'000'000'000),
                  .scaling = read_scaling(json.at("scaling"))};
  if (std::ssize(input.scaling) != input.features) {
    fail(ErrorKind::checkpoint, "{}: sequence: scaling: expected one per feature, {}, got {}", name,
         input.features, input.scaling.size());
  }
  return input;
}

LabelledRows read_labelled_rows(const std::filesystem::path& path,
                                const LabelledRowsOptions& options) {
  RowFile file = read_rows(path);
  const CsvRow header = file.rows.front();
  const bool labelled = !options.unlabelled || std::ssize(header.fields) != *options.unlabelled;
  const size_t label =
      labelled ? find_column(header, options.label_column, file.name) : header.fields.size();
  bool any_number = false;
  for (size_t i = 0; i < header.fields.size(); ++i) {
    any_number = any_number || (i != label && number_of(header.fields[i]));
  }
  if (!any_number) file.rows.erase(file.rows.begin());  // a row of names
  LabelledRows all;
  all.features = options.features;
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
    if (fault.empty() && std::ssize(values) % options.features != 0) {
      fault = fmt::format("expected {} values per step, got {} in total", options.features,
                          values.size());
    }
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
  check_bad_rows(file.bad, std::ssize(file.rows), options.max_bad);
  if (all.values.empty()) fail(ErrorKind::data, "{}: no row could be used", file.name);
  all.bad = std::move(file.bad);
  return all;
}

std::vector<Scaling> fit_scaling(const LabelledRows& rows, std::span<const int64_t> indices) {
  std::vector<std::vector<double>> values(static_cast<size_t>(rows.features));
  for (const int64_t index : indices) {
    const std::vector<double>& row = rows.values[static_cast<size_t>(index)];
    for (size_t i = 0; i < row.size(); ++i) values[i % values.size()].push_back(row[i]);
  }
  std::vector<Scaling> scaling;
  for (const std::vector<double>& of_feature : values) {
    scaling.push_back(Scaling::fitted_to(of_feature));
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
