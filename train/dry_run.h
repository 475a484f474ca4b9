// What a training run would take, found by building all of it and running one batch.
#pragma once

#include "train/config.h"

#include <string>

namespace whisker {

/// Builds data, model and optimizer, runs forward and backward on the first batch (twice, the
/// second one timed), changes nothing on disk, and says in a few lines: data, parameters, memory,
/// seconds per step and per epoch.
std::string dry_run(Config config);

}  // namespace whisker
