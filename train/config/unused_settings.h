// Settings that others leave without effect: said when training starts.
#pragma once

#include "train/config/config.h"

#include <string>
#include <vector>

namespace whisker {

/// A line for each group of keys that differ from their defaults and that nothing reads:
/// "optimizer.nesterov has no effect: it is for optimizer.kind sgd".
std::vector<std::string> unused_settings(const Config& config);

}  // namespace whisker
