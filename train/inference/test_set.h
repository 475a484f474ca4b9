// `data.test`: measured once, after training.
#pragma once

#include "train/config/config.h"
#include "train/metrics/metrics.h"

#include <filesystem>
#include <memory>

namespace whisker {

/// Metrics of the network in `weights` over config.data.test. Throws what reading either throws.
std::unique_ptr<Metrics> measure_test_set(const Config& config,
                                          const std::filesystem::path& weights, Device device);

}  // namespace whisker
