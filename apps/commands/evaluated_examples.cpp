#include "apps/commands/evaluated_examples.h"

#include "apps/commands/number_columns.h"
#include "core/error.h"
#include "core/io/duration.h"
#include "data/files/csv.h"
#include "train/report/evaluation_report.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <exception>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view csv_columns = "path,label,predicted,loss";
constexpr OutputFormat csv_format{.name = "a CSV of evaluate --predictions",
                                  .is_own = is_predictions_csv};
constexpr OutputFormat page_format{.name = "a page of evaluate --report",
                                   .is_own = is_evaluation_report};

}  // namespace

bool is_predictions_csv(std::string_view content) {
  constexpr size_t texts = 3;  // path, label, predicted
  const std::vector<std::string> columns = number_columns(content, texts);
  return content.starts_with(csv_columns) && columns.size() > texts + 1 &&
         std::all_of(columns.begin() + texts + 1, columns.end(),
                     [](const std::string& column) { return column.starts_with("probability "); });
}

std::string predictions_csv(const ValidationExamples& examples,
                            const std::vector<std::string>& paths, const fs::path& folder) {
  const fs::path here = fs::current_path();
  const fs::path back = folder.empty() || folder == here ? "" : here.lexically_relative(folder);
  const auto name = [&](int32_t number) {
    return csv_field(examples.classes[static_cast<size_t>(number)]);
  };
  const auto classes = static_cast<int32_t>(examples.classes.size());
  std::string text(csv_columns);
  for (const std::string& one : examples.classes) text += "," + csv_field("probability " + one);
  text += "\n";
  for (int64_t i = 0; i < examples.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const int32_t label = examples.labels[at];
    text += fmt::format("{},{},{},{}", csv_field((back / paths[at]).string()), name(label),
                        name(examples.predicted(i)), example_loss(examples.probability(i, label)));
    for (int32_t c = 0; c < classes; ++c) text += fmt::format(",{}", examples.probability(i, c));
    text += "\n";
  }
  return text;
}

EvaluatedFiles::EvaluatedFiles(Outputs& outputs, const std::string& predictions,
                               const std::string& report)
    : outputs_(outputs) {
  if (!predictions.empty()) {
    predictions_ = outputs_.open("--predictions", predictions, csv_format);
  }
  if (!report.empty()) page_ = outputs_.open("--report", report, page_format);
}

void EvaluatedFiles::add_input(const fs::path& input) {
  if (any()) outputs_.add_data(input);
}

void EvaluatedFiles::write_predictions(const Measured& measured) {
  fs::path folder;  // a real path: "../.." leads from it
  if (!predictions_->is_stream()) {
    folder = fs::canonical(fs::absolute(predictions_->path()).parent_path());
  }
  predictions_->write(predictions_csv(measured.examples, measured.paths, folder));
  outputs_.commit(*predictions_, "--predictions", csv_format);
}

int EvaluatedFiles::write(const Network& network, const EvaluateArguments& arguments,
                          const Measured& measured) {
  int code = 0;
  std::exception_ptr unprinted, unwritten;
  try {
    code = print_metrics(network, measured, arguments.json);
  } catch (...) {
    unprinted = std::current_exception();
  }
  try {
    if (predictions_) write_predictions(measured);
  } catch (const Error&) {
    unwritten = std::current_exception();
  }
  if (page_) {
    page_->write(evaluation_report({.network = network,
                                    .metrics = measured.metrics,
                                    .weights = arguments.weights,
                                    .data = arguments.data_names(),
                                    .date = local_time_text(std::time(nullptr)),
                                    .examples = measured.examples,
                                    .paths = measured.paths,
                                    .sequences = measured.sequences,
                                    .worst = arguments.worst,
                                    .trained_on = measured.trained_on}));
    outputs_.commit(*page_, "--report", page_format);
  }
  for (const std::exception_ptr& failed : {unwritten, unprinted}) {
    if (failed) std::rethrow_exception(failed);
  }
  return code;
}

}  // namespace whisker
