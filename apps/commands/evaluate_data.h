// `whisker evaluate` of images, and of text, rows and series.
#pragma once

#include "apps/commands/calibrated_weights.h"
#include "apps/commands/evaluate_arguments.h"
#include "apps/commands/evaluated_examples.h"
#include "core/communicator/rank_group.h"
#include "train/data/run_split.h"
#include "train/model/network.h"

#include <optional>

namespace whisker {

/// The files that are written.
struct EvaluateOutputs {
  EvaluatedFiles& reports;
  CalibratedWeights& calibrated;
};

/// Each measures on the data that `arguments` name, or on a part of `run`; prints the metrics and
/// writes `outputs`. Returns the exit code.
int evaluate_images(const Network& network, const EvaluateArguments& arguments,
                    const std::optional<PastRun>& run, const EvaluateOutputs& outputs,
                    RankGroup& ranks, int verbosity);
int evaluate_sequences(const Network& network, const EvaluateArguments& arguments,
                       const std::optional<PastRun>& run, const EvaluateOutputs& outputs,
                       RankGroup& ranks, int verbosity);

}  // namespace whisker
