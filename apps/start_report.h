// Where the time of a short command goes, for -v.
#pragma once

#include "core/device.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

class StartReport {
 public:
  StartReport();
  /// Notes that `what` is done by now.
  void mark(std::string what);
  /// A line per mark with the seconds since the process was started, then what starting `device`
  /// took, if it is a GPU.
  std::string text(Device device) const;

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point start_;  // of the process
  std::vector<std::pair<double, std::string>> marks_;
};

/// "driver 0.105 s, ..."; "" for a device that is no GPU.
std::string device_start_text(Device device);

}  // namespace whisker
