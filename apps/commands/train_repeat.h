// whisker train --repeat RUN: what it may set, and whether the bits were the same.
#pragma once

#include "apps/commands/train_arguments.h"
#include "apps/terminal/progress.h"
#include "train/checkpoint/run_folder.h"
#include "train/checkpoint/train_state.h"
#include "train/experiment.h"

#include <filesystem>

namespace whisker {

/// A run to be repeated.
struct Recorded {
  std::filesystem::path run;
  TrainState state;
};

/// Throws usage for options that a repeated run cannot have, checkpoint where there is no run.
void check_repeat(const TrainArguments& arguments);
/// Collective. Throws checkpoint unless `experiment` can repeat the run.
Recorded recorded_run(const TrainArguments& arguments, const Experiment& experiment,
                      RankGroup& ranks);
/// Exit code 4 where the weights differ, unless a GPU may give others each time.
int compare_with(const Recorded& recorded, const RunFolder& folder, const Config& config,
                 Device device, Progress& progress);

}  // namespace whisker
