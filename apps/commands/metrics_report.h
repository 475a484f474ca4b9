// What `whisker evaluate` prints: the metrics, and the inputs that could not be read.
#pragma once

#include "core/io/json.h"
#include "data/files/file_walk.h"
#include "train/metrics/metrics.h"
#include "train/model/network.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

/// Unreadable inputs: reported on stderr at once and counted in the result.
class Unreadable {
 public:
  void add(const std::string& path, const std::string& reason);
  bool any() const { return !files_.empty(); }
  size_t count() const { return files_.size(); }
  void write(JsonWriter& json) const;

 private:
  std::vector<SkippedFile> files_;
};

/// Writes the metrics to stdout; returns the exit code. `trained`: number of examples that
/// trained the network, if known.
int print_metrics(const Network& network, const Metrics& metrics, const Unreadable& unreadable,
                  bool as_json, std::optional<int64_t> trained = std::nullopt);

}  // namespace whisker
