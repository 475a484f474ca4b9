// Estimates a training run's cost: builds all of it and runs one batch.
#pragma once

#include "train/config/config.h"

#include <string>

namespace whisker {

/// Builds data, model and optimizer, trains the first batch until steps are steady
/// (TrainStep::warm_up_batches) and times one more. Reports data, parameters, memory, and seconds
/// per step and epoch. Writes nothing to disk.
std::string dry_run(Config config);

}  // namespace whisker
