// `whisker devices --watch`: repeated samples of every GPU, as a table, CSV or JSON lines.
#pragma once

#include "core/nvidia/nvml.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace whisker {

enum class WatchFormat : uint8_t { text, csv, json };

struct WatchOptions {
  std::chrono::duration<double> interval{1};
  WatchFormat format = WatchFormat::text;
};

/// The heading above all samples; "" for JSON.
std::string watch_heading(WatchFormat format);
/// One sample: a line per GPU, or for JSON one object. `time` as in time_text().
std::string watch_lines(WatchFormat format, const std::vector<GpuReading>& gpus,
                        const std::string& time);
/// "2026-01-31T12:00:00.000Z".
std::string time_text(std::chrono::system_clock::time_point time);

/// Calls `print` with samples until `stop` is not 0.
void watch_devices(const Nvml& nvml, const WatchOptions& options, const std::atomic<int>& stop,
                   const std::function<void(const std::string&)>& print);

}  // namespace whisker
