// Repeating a run bit for bit in a new folder: what it depended on, and whether it was the same.
#pragma once

#include "core/backend/backend.h"
#include "train/checkpoint/train_state.h"
#include "train/experiment.h"

#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

/// What decides the bits of a run beside its configuration, data and timed choices: versions of
/// Whisker and its libraries, processor, threads, number of ranks.
std::vector<BackendProperty> environment_of(const Experiment& experiment);

/// "threads: 2 then, 1 now": the first difference; "" for none.
std::string environment_difference(const std::vector<BackendProperty>& then,
                                   const std::vector<BackendProperty>& now);

/// Throws checkpoint, naming `run`, unless `experiment` can repeat it: the run recorded its
/// environment, kept it, its length and its schedule when it was resumed, and environment and data
/// are the same now.
void check_repeatable(const std::filesystem::path& run, const TrainState& recorded,
                      const Experiment& experiment);

/// Whether the last checkpoints of two runs hold the same weights, at the same step.
bool same_weights(const std::filesystem::path& run, const std::filesystem::path& other);

}  // namespace whisker
