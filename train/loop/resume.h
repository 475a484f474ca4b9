// Resuming a run: what a checkpoint holds, what must not have changed, and the learning rate when
// the schedule ends at another epoch than planned.
#pragma once

#include "optim/schedule.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_folder.h"
#include "train/checkpoint/train_state.h"
#include "train/config/config.h"
#include "train/experiment.h"

#include <string>

namespace whisker {

/// The state of a run that has not begun, with the values that a resume compares.
TrainState first_state(const Experiment& experiment);

/// `state` with the states of the schedule, the average and the backend.
TrainState state_to_save(const TrainState& state, const Experiment& experiment);

/// Appends the stamps of the run's images (docs/reference/formats.md), which a resume compares.
/// When the run `stops` in its first epoch, reads the remaining images now, for a few seconds at
/// most.
void add_image_stamps(const Experiment& experiment, bool stops, Snapshot& snapshot);

/// Continues from the folder's last checkpoint: weights, moments, average, schedule, the device's
/// counters and timed choices, a language model's carried `states`; truncates metrics.jsonl to it.
/// Throws checkpoint, without changes on disk, when the checkpoint is missing or damaged, or data
/// or configuration differ from the run's.
TrainState resume_run(RunFolder& folder, Experiment& experiment, CarriedStates& states);

/// The timed choices of a run: algorithms, and the share of JPEG files that a GPU decodes.
void import_choices(const TrainState& state, Experiment& experiment);

/// The message before a run continues from `saved` with `schedule`: the last step's learning rate,
/// the rates to come, and those of schedule.restart. "" when the schedule has no end or the same
/// end.
std::string schedule_change(const Config& config, const Schedule& schedule,
                            const TrainState& saved);

}  // namespace whisker
