#include "data/sequences/series_input.h"

#include "core/error.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "data/sequences/table_header.h"

#include <algorithm>

namespace whisker {

size_t SeriesInput::target_column(size_t i) const {
  const auto found = std::ranges::find(columns, targets[i]);
  if (found == columns.end()) {
    fail(ErrorKind::usage,
         "data.series.targets: expected one of data.series.columns ({}), got '{}'",
         fmt::join(columns, ", "), targets[i]);
  }
  return static_cast<size_t>(found - columns.begin());
}

std::vector<std::string> SeriesInput::column_names() const {
  std::vector<std::string> all;
  for (const std::string& column : columns) {
    all.push_back(fmt::format(
        "column {}{}{}", is_column_number(column) ? column : excerpt(column),
        log ? " in logarithms" : "",
        difference > 0 ? fmt::format(" in differences to the row {} before", difference) : ""));
  }
  return all;
}

std::string SeriesInput::json() const {
  JsonWriter json;
  json.begin_object().field("kind", "series").list("columns", columns).list("targets", targets);
  json.field("window", window).field("horizon", horizon).field("season", season);
  json.field("log", log).field("difference", difference);
  write(json, "scaling", scaling);
  write(json, "target_scaling", target_scaling);
  write_header(json, header);
  if (!names.empty()) json.list("names", names);
  if (step_seconds > 0) json.field("step_seconds", step_seconds);
  return json.end_object().str();
}

SeriesInput SeriesInput::from_json(std::string_view text, const std::string& name) {
  const JsonValue json =
      JsonValue::parse(text, {.name = name + ": sequence", .kind = ErrorKind::checkpoint});
  SeriesInput input{.columns = json.at("columns").as_strings(),
                    .targets = json.at("targets").as_strings(),
                    .window = json.at("window").as_int(1, 1'000'000),
                    .horizon = json.at("horizon").as_int(1, 100'000),
                    .season = json.at("season").as_int(0, 1'000'000),
                    .log = json.at("log").as_bool(),
                    .difference = json.at("difference").as_int(0, 1'000'000),
                    .scaling = read_scaling(json.at("scaling")),
                    .target_scaling = read_scaling(json.at("target_scaling")),
                    .header = read_header(json),
                    .names = read_names(json)};
  if (const JsonValue* const step = json.find("step_seconds")) {
    input.step_seconds = step->as_double(1e-9, 1e12);
  }
  const bool sound = !input.targets.empty() && input.scaling.size() == input.columns.size() &&
                     std::ssize(input.target_scaling) == input.outputs();
  if (!sound) {
    fail(ErrorKind::checkpoint, "{}: sequence: its horizon, columns and scaling do not match",
         name);
  }
  return input;
}

}  // namespace whisker
