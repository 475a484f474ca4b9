#include "apps/commands/evaluate_sequences.h"

#include "apps/commands/metrics_report.h"
#include "apps/ranks/own_batches.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/terminal.h"
#include "core/error.h"
#include "core/io/text.h"
#include "train/data/labelled_sequences.h"
#include "train/experiment.h"
#include "train/loop/rank_sums.h"
#include "train/metrics/evaluate.h"

#include <string>
#include <vector>

namespace whisker {
namespace {

// What evaluate_sequences() reads.
std::vector<std::string> sequence_files(const EvaluateArguments& arguments,
                                        const std::optional<PastRun>& run) {
  if (!arguments.inputs.empty()) return arguments.inputs;
  std::vector<std::string> paths = {run->config.data.train};
  if (!run->config.data.val.empty()) paths.push_back(run->config.data.val);
  return paths;
}

std::optional<Header> header_of(const EvaluateArguments& arguments) {
  if (arguments.header.empty()) return std::nullopt;
  return arguments.header == "auto"   ? Header::automatic
         : arguments.header == "true" ? Header::present
                                      : Header::absent;
}

}  // namespace

int evaluate_sequences(const Network& network, const EvaluateArguments& arguments,
                       const std::optional<PastRun>& run, RankGroup& ranks, int verbosity) {
  if (!arguments.predictions.empty() || !arguments.out.empty()) {
    fail(ErrorKind::usage,
         "evaluate: --predictions and --worst are about images, got a network trained on {}.",
         network.signature().examples());
  }
  const bool split = !arguments.split.empty();
  if (!split && (arguments.inputs.size() != 1 || !arguments.csv.empty() ||
                 !arguments.label_pattern.empty())) {
    fail(ErrorKind::usage,
         "evaluate: a network trained on {} expects one file or folder laid out as its training "
         "data, and neither --csv nor --label-pattern.",
         network.signature().examples());
  }
  require_same_files(ranks, sequence_files(arguments, run), "DATA");
  const Partition part{.rank = ranks.rank(), .world = ranks.world()};
  const LabelledSequences data =
      split ? sequences_of_split(network, *run, arguments.run_part(), arguments.batch_size, part)
            : open_labelled(network, arguments.inputs.front(),
                            {.label_column = arguments.label_column,
                             .text_column = arguments.text_column,
                             .header = header_of(arguments)},
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
  const OutputObserver observe = [&](const Tensor& outputs, const Batch&) {
    network.check_outputs(outputs.data<const float>(),
                          split ? "the run's data" : arguments.inputs.front());
  };
  const auto metrics = evaluate(network, objective, rows ? *data.source : own, nullptr, observe);
  add_other_ranks(*metrics, ranks);
  if (!ranks.leads()) return 0;
  return print_metrics(network, *metrics, unreadable, arguments.json);
}

}  // namespace whisker
