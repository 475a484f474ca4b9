// A run of `whisker train`, new or resumed, from its first line on the screen to its exit code.
#pragma once

#include "apps/commands/train_repeat.h"
#include "apps/terminal/command.h"
#include "train/checkpoint/run_folder.h"
#include "train/experiment.h"

#include <functional>

namespace whisker {

/// Trains, and returns the exit code. `recorded`: the run to be repeated, if any.
int train_in(Experiment& experiment, RunFolder& folder, bool resume, const Invocation& invocation,
             const Recorded* recorded = nullptr);

/// work(); what ends it stands in the run's log as well, and a folder that somebody removed is no
/// wrong call.
int logged(RunFolder& folder, const std::function<int()>& work);

}  // namespace whisker
