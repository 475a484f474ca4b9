// What stands in a run's best.safetensors when the run is resumed. A checkpoint does not hold the
// best weights; it knows their epoch and metric.
#pragma once

#include "train/model/network.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace whisker {

struct BestWeights {
  std::string problem;  ///< why they cannot be read: "the best weights are missing"; or ""
  int64_t epoch = 0;    ///< that made them, from 1; 0: the file does not say it
  std::optional<double> metric = {};  ///< of their validation; unset where it overflowed
  std::string temperature = {};       ///< of evaluate --calibrate, which is none of the run's
};

/// `figure` names the metric. Throws checkpoint for what is no run's own to replace: a folder, and
/// weights that do not fit `network`.
BestWeights read_best_weights(const std::filesystem::path& best, const Network& network,
                              std::string_view figure);

}  // namespace whisker
