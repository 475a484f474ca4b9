// Times of a short command's parts, for -v, and the age of the process.
#pragma once

#include "core/tensor/device.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

/// Seconds since the process was started, to 0.01; below 0 when /proc does not report it.
double seconds_since_process_start();

class StartReport {
 public:
  StartReport();
  /// Records that `what` is done now.
  void mark(std::string what);
  /// A line per mark with the seconds since process start, then the start times of `device` if it
  /// is a GPU.
  std::string text(Device device) const;

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point start_;  // of the process
  std::vector<std::pair<double, std::string>> marks_;
};

/// "driver 0.105 s, ..."; "" for a device that is no GPU.
std::string device_start_text(Device device);

}  // namespace whisker
