// A run stopped and going on: what of it is in a checkpoint, and what must not have changed since.
#pragma once

#include "train/experiment.h"
#include "train/run_folder.h"
#include "train/train_state.h"

namespace whisker {

/// The state of a run that has not begun: what a resume will compare with is set.
TrainState first_state(const Experiment& experiment);

/// `state` with what the schedule, the average and the backend know beside it.
TrainState state_to_save(const TrainState& state, const Experiment& experiment);

/// Continues from the folder's last checkpoint: weights, moments, average, schedule, the device's
/// counters and timed choices, the `states` that a language model carries; cuts metrics.jsonl back
/// to it. Throws checkpoint, and has changed nothing on disk, when there is none, when it is
/// damaged, or when data or configuration are not the run's.
TrainState resume_run(RunFolder& folder, Experiment& experiment, CarriedStates& states);

}  // namespace whisker
