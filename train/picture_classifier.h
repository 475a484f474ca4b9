// A classifier on picture files: read, decode exactly, preprocess as in training, run in batches.
#pragma once

#include "train/network.h"
#include "train/prediction.h"

#include <functional>
#include <string>
#include <vector>

namespace whisker {

/// Calls `report` once per path, in order. Unreadable pictures are reported, the rest go on.
void classify_pictures(const Network& network, const std::vector<std::string>& paths,
                       int64_t batch_size, const std::function<void(const Prediction&)>& report);

}  // namespace whisker
