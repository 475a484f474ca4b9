// What a training run would take, found by building all of it and running one batch.
#pragma once

#include "train/config.h"

#include <string>

namespace whisker {

/// Builds data, model and optimizer, trains the first batch until steps take what all further ones
/// do (TrainStep::warm_up_batches), times one more, and says in a few lines: data, parameters,
/// memory, seconds per step and per epoch. Changes nothing on disk.
std::string dry_run(Config config);

}  // namespace whisker
