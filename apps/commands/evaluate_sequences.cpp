#include "apps/commands/evaluate_data.h"
#include "apps/commands/metrics_report.h"
#include "apps/ranks/own_batches.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/terminal.h"
#include "core/error.h"
#include "core/io/text.h"
#include "data/class_names.h"
#include "data/files/file_walk.h"
#include "data/sequences/listed_examples.h"
#include "train/data/copies.h"
#include "train/data/labelled_sequences.h"
#include "train/experiment.h"
#include "train/loop/rank_sums.h"
#include "train/metrics/evaluate.h"

#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace whisker {
namespace {

namespace fs = std::filesystem;

// The file or folder that `arguments` name; "" for a part of the run's data. With --csv alone it is
// the table that the CSV's paths are lines of.
std::string data_of(const EvaluateArguments& arguments, const Network& network) {
  if (!arguments.inputs.empty()) return arguments.inputs.front();
  if (arguments.csv.empty()) return "";
  const std::optional<fs::path> table = listed_table(arguments.csv);
  if (!table) {
    fail(ErrorKind::usage,
         "evaluate --csv: the paths of {} are not all lines of one table, such as reviews.csv:12. "
         "Name the file or folder that its {} are in after WEIGHTS.",
         excerpt(arguments.csv), network.signature().examples());
  }
  const bool texts = std::holds_alternative<TextInput>(network.signature().input);
  if (texts && class_number(network.classes(), table->stem().string())) {
    fail(ErrorKind::usage,
         "evaluate --csv: {} may be a table, or a file named after its class with a text per line. "
         "Name the table, or the folder of such files, after WEIGHTS.",
         excerpt(table->string()));
  }
  return table->string();
}

// What evaluate_sequences() reads, beside --csv.
std::vector<std::string> sequence_files(const std::string& data,
                                        const std::optional<PastRun>& run) {
  if (!data.empty()) return {data};
  std::vector<std::string> paths = {run->config.data.train};
  if (!run->config.data.val.empty()) paths.push_back(run->config.data.val);
  return paths;
}

void add_inputs(std::span<const std::string> paths, EvaluatedFiles& reports) {
  if (!reports.any()) return;
  for (const fs::path path : paths) {
    reports.add_input(path);
    std::error_code error;
    if (!fs::is_directory(path, error)) continue;
    for (const WalkedFile& file : walk_files(path, "evaluate", OnUnreadable::list).files) {
      reports.add_input(path / file.path);
    }
  }
}

std::optional<Header> header_of(const EvaluateArguments& arguments) {
  if (arguments.header.empty()) return std::nullopt;
  return arguments.header == "auto"   ? Header::automatic
         : arguments.header == "true" ? Header::present
                                      : Header::absent;
}

// Counts the examples that trained the weights, if the run's data are still there, and warns.
std::optional<int64_t> warn_of_trained(const LabelledSequences& data, const Network& network,
                                       const std::optional<PastRun>& run, const fs::path& path,
                                       int verbosity) {
  if (!run) return std::nullopt;
  const auto [trained, changed] = trained_contents(*run, path);
  const int64_t count = find_shared(data.contents, trained).count;
  const std::string note =
      trained.empty() ? changed
                      : trained_note(count, std::ssize(data.contents),
                                     content_name(network.signature()), run->config.data.train);
  if (!note.empty() && verbosity >= 0) tell(fmt::format("whisker: {}\n", note));
  if (trained.empty()) return std::nullopt;
  return count;
}

}  // namespace

int evaluate_sequences(const Network& network, const EvaluateArguments& arguments,
                       const std::optional<PastRun>& run, const EvaluateOutputs& outputs,
                       RankGroup& ranks, int verbosity) {
  const bool split = !arguments.split.empty();
  const bool one_file =
      arguments.inputs.size() == 1 || (arguments.inputs.empty() && !arguments.csv.empty());
  if (!split && !one_file) {
    fail(ErrorKind::usage,
         "evaluate: a network trained on {} expects one file or folder laid out as its training "
         "data.",
         network.signature().examples());
  }
  const std::string path = data_of(arguments, network);
  if (!split && arguments.inputs.empty() && ranks.leads() && verbosity >= 0) {
    tell(fmt::format("{}: its paths are lines of {}, which is read (DATA names another file)\n",
                     printable(arguments.csv), printable(path)));
  }
  const std::vector<std::string> files = sequence_files(path, run);
  require_same_files(ranks, files, "DATA");
  if (!arguments.csv.empty()) require_same_files(ranks, std::array{arguments.csv}, "--csv");
  add_inputs(files, outputs.reports);
  const Partition part{.rank = ranks.rank(), .world = ranks.world()};
  const KeepExamples keep = arguments.each() ? KeepExamples::yes : KeepExamples::no;
  const LabelledSequences data = split ? sequences_of_split(network, *run, arguments.run_part(),
                                                            arguments.batch_size, part, keep)
                                       : open_labelled(network, path,
                                                       {.label_column = arguments.label_column,
                                                        .text_column = arguments.text_column,
                                                        .header = header_of(arguments),
                                                        .csv = arguments.csv,
                                                        .keep = keep},
                                                       arguments.batch_size, part);
  if (!data.use.empty() && ranks.leads() && verbosity >= 0) tell(data.use + "\n");
  for (const std::string& note : data.notes) {
    if (ranks.leads() && verbosity >= 0) tell(printable(note) + "\n");
  }
  Unreadable unreadable;
  for (const BadRow& row : data.bad) {
    if (ranks.leads()) unreadable.add(row.place, row.reason);
  }
  const std::vector<int64_t> counts(network.classes().size(), 1);  // of no weight here
  const Objective objective(network.model(), network.signature(), {}, counts,
                            network.arena().device());
  // A language model's states go from batch to batch: its ranks divide each batch's rows.
  const bool rows = network.signature().task() == Task::language_model;
  OwnBatchSource own(*data.source, ranks);
  std::optional<ExampleCollector> measured;  // of forecasts for the report, of tokens none
  const bool classes = network.signature().task() == Task::classification;
  if (classes || (!rows && !arguments.report.empty())) {
    measured.emplace(network.signature(), std::ssize(data.contents), arguments.scores());
  }
  const OutputObserver observe = [&](const Tensor& scores, const Batch& batch) {
    network.check_outputs(scores.data<const float>(), split ? "the run's data" : path);
    if (measured) measured->add(scores, batch);
  };
  EvaluateOptions options{.observe = observe};
  outputs.calibrated.observe(options);
  const auto metrics = evaluate(network, objective, rows ? *data.source : own, options);
  add_other_ranks(*metrics, ranks);
  ValidationExamples examples;
  if (measured) examples = measured->of_all_ranks(ranks);
  const std::optional<TemperatureFit> fit = outputs.calibrated.fit(ranks);
  if (!ranks.leads()) return 0;
  std::vector<std::string> paths;
  std::span<const SequenceExample> sequences;
  if (classes) {
    sequences = data.examples;
    for (const SequenceExample& example : sequences) paths.push_back(example.place);
  }
  std::optional<int64_t> trained;
  if (!split) trained = warn_of_trained(data, network, run, path, verbosity);
  if (rows) trained.reset();  // it is of lines, and metrics of tokens
  const int code = outputs.reports.write(network, arguments,
                                         {.metrics = *metrics,
                                          .unreadable = unreadable,
                                          .examples = examples,
                                          .trained_on = trained,
                                          .fit = fit,
                                          .contents = data.contents,
                                          .paths = std::move(paths),
                                          .sequences = sequences});
  outputs.calibrated.write(metrics->count(), data.contents);
  return code;
}

}  // namespace whisker
