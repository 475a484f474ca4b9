// Settings that others leave without effect: said when training starts.
#pragma once

#include "train/config/config.h"

#include <string>
#include <vector>

namespace whisker {

/// A line for each group of keys that differ from their defaults and that nothing reads:
/// "optimizer.nesterov has no effect: it is for optimizer.kind sgd". `world` is the number of
/// ranks. Which device a key is for is not looked at: a configuration may serve several.
std::vector<std::string> unused_settings(const Config& config, int world = 1);

}  // namespace whisker
