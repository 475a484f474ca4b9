#include "apps/commands/classify_sequences.h"

#include "apps/commands/packed_predictions.h"
#include "apps/commands/prediction_printer.h"
#include "apps/ranks/rank_rounds.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/command.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/terminal.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "data/sequences/label_reading.h"
#include "train/inference/sequence_classifier.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

namespace whisker {
namespace {

// The readable rows begin to end - 1.
LabelledRows part_of(const LabelledRows& rows, RankRounds::Block block) {
  LabelledRows part{.features = rows.features, .labels = {}, .values = {}, .places = {}, .bad = {}};
  for (size_t i = block.begin; i < block.end; ++i) {
    part.values.push_back(rows.values[i]);
    part.places.push_back(rows.places[i]);
  }
  return part;
}

LabelledRows rows_of(const std::string& path, const Network& network,
                     const ClassifyArguments& arguments) {
  const auto& input = network.input<RowsInput>();
  RowFile file = read_rows(path);
  const std::string column = arguments.label_column.empty()
                                 ? find_label_column(file, input, network.classes())
                                 : arguments.label_column;
  LabelledRows rows = labelled_rows(std::move(file), {.label_column = column,
                                                      .features = input.features,
                                                      .max_bad = 1,
                                                      .header = input.header,
                                                      .classes = network.classes(),
                                                      .names = input.names});
  std::ranges::move(unlike_training(rows, input), std::back_inserter(rows.notes));
  return rows;
}

// Six digits, or those that tell values apart by a thousandth of `deviation`, the scaling's.
std::string forecast_number(double value, double deviation, bool log) {
  const double unit = log ? deviation * std::abs(value) : deviation;
  const double digits = std::log10(std::abs(value)) - std::log10(unit);
  return fmt::format("{:.{}g}", value,
                     std::isfinite(digits) ? std::clamp(static_cast<int>(digits) + 4, 6, 17) : 6);
}

// A line per step ahead: its number, and the value of each target. What was assumed and left out in
// reading is told.
std::string forecast_text(const Network& network, const std::string& path, bool as_json,
                          int verbosity) {
  const auto& input = network.input<SeriesInput>();
  const Series series = read_series(path, input, 1);
  for (const std::string& note : series.notes) {
    if (verbosity >= 0) tell(printable(note) + "\n");
  }
  if (!series.bad.empty() && verbosity >= 0) {
    const BadRow& first = *std::ranges::min_element(series.bad, {}, &BadRow::line);
    tell(fmt::format("{}: {} of {} cannot be used, the first in line {}: {}\n", printable(path),
                     series.bad.size(), counted(series.rows(), "row"), first.line,
                     printable(first.reason)));
  }
  const std::vector<double> values = forecast(network, series);
  if (as_json) {
    JsonWriter json(NonFinite::null);  // exp() of a forecast of logarithms may overflow
    json.begin_object().field("path", path).list("targets", input.targets).list("values", values);
    return json.end_object().str();
  }
  const size_t targets = input.targets.size();
  std::string text;
  for (size_t at = 0; at < values.size(); ++at) {
    if (at % targets == 0) text += fmt::format("{}: +{}", printable(path), at / targets + 1);
    text += fmt::format("  {} {}", printable(input.targets[at % targets]),
                        forecast_number(values[at], input.target_scaling[at].deviation, input.log));
    if (at % targets + 1 == targets) text += "\n";
  }
  return text;
}

}  // namespace

int classify_given_texts(const Network& network, const ClassifyArguments& arguments,
                         RankGroup& ranks, int verbosity) {
  for (const std::string& word : arguments.inputs) {
    if (word != "-") {
      fail(ErrorKind::usage,
           "classify: a network trained on texts expects --text TEXT, or - for a text per line of "
           "standard input, got {}",
           excerpt(word));
    }
  }
  PredictionPrinter printer(arguments, network, "text", ranks.leads());
  const auto finish = [&] {
    const int code = printer.finish();
    const std::string note = printer.unknown_note();
    if (!note.empty() && ranks.leads() && verbosity >= 0) tell(printable(note) + "\n");
    return code;
  };
  if (ranks.world() > 1) {
    classify_divided(
        ranks, arguments.texts, arguments.batch_size,
        [&](auto next, auto report) {
          classify_texts(network, next, arguments.batch_size, report);
        },
        [](const Prediction& result) { return packed(result); },
        [&](const std::string& result) { printer.print(unpacked(result)); });
    return finish();
  }
  InputNames lines(arguments.inputs, {.null = arguments.null});
  std::span<const std::string> given = arguments.texts;
  const auto next = [&](size_t most) {
    if (given.empty()) return lines.next(most);
    const auto first = given.first(std::min(most, given.size()));
    given = given.subspan(first.size());
    return std::vector<std::string>(first.begin(), first.end());
  };
  classify_texts(network, next, arguments.batch_size,
                 [&](const Prediction& result) { printer.print(result); });
  return finish();
}

int classify_row_files(const Network& network, const ClassifyArguments& arguments, RankGroup& ranks,
                       int verbosity) {
  require_same_files(ranks, arguments.inputs, "INPUTS");
  PredictionPrinter printer(arguments, network, "place", ranks.leads());
  InputNames names(arguments.inputs, {.null = arguments.null});
  for (auto path = names.next(1); !path.empty(); path = names.next(1)) {
    LabelledRows rows;
    try {
      if (!path[0].empty()) rows = rows_of(path[0], network, arguments);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data || !arguments.reads_stdin()) throw;
      rows.bad.push_back({.place = path[0], .reason = error.what()});
    }
    if (path[0].empty()) rows.bad.push_back({});  // a line of standard input
    for (const std::string& note : rows.notes) {
      if (ranks.leads() && verbosity >= 0) tell(printable(note) + "\n");
    }
    for (const BadRow& row : rows.bad) {
      if (!ranks.leads()) break;
      printer.print({.name = row.place, .probabilities = {}, .error = row.reason});
    }
    RankRounds rounds(ranks, rows.values.size(), static_cast<size_t>(arguments.batch_size),
                      [&](const std::string& result) { printer.print(unpacked(result)); });
    for (auto block = rounds.next(); block.size() > 0; block = rounds.next()) {
      classify_rows(network, part_of(rows, block), arguments.batch_size,
                    [&](const Prediction& result) { rounds.add(packed(result)); });
    }
    rounds.finish();
  }
  return printer.finish();
}

int forecast_files(const Network& network, const ClassifyArguments& arguments, RankGroup& ranks,
                   int verbosity) {
  require_same_files(ranks, arguments.inputs, "INPUTS");
  const bool as_json = arguments.json || arguments.jsonl;
  std::string together;
  bool failed = false;
  const auto print = [&](const std::string& text) {
    if (arguments.json) {
      together += (together.empty() ? "" : ",") + text;
    } else {
      print_result(text + (arguments.jsonl ? "\n" : ""));
    }
  };
  // Each line of standard input is answered.
  const auto print_error = [&](const std::string& path, const std::string& reason) {
    failed = true;
    tell_unreadable(path, reason);
    if (!as_json) return;
    JsonWriter json;
    json.begin_object().field(path.empty() ? "input" : "path", path);
    print(json.field("error", bare_reason(path, reason)).end_object().str());
  };
  InputNames names(arguments.inputs, {.null = arguments.null});
  if (ranks.world() > 1) {
    const std::vector<std::string> paths = names.next(std::numeric_limits<size_t>::max());
    RankRounds rounds(ranks, paths.size(), 1, print);
    for (auto block = rounds.next(); block.size() > 0; block = rounds.next()) {
      rounds.add(forecast_text(network, paths[block.begin], as_json, verbosity));
    }
    rounds.finish();
  } else {
    for (auto next = names.next(1); !next.empty(); next = names.next(1)) {
      try {
        if (next[0].empty()) fail(ErrorKind::data, "the input is empty");
        print(forecast_text(network, next[0], as_json, verbosity));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::data || !arguments.reads_stdin()) throw;
        print_error(next[0], error.what());
      }
    }
  }
  if (arguments.json && ranks.leads()) {
    print_result(fmt::format("{{\"schema_version\":2,\"forecasts\":[{}]}}\n", together));
  }
  return failed ? static_cast<int>(ErrorKind::data) : 0;
}

}  // namespace whisker
