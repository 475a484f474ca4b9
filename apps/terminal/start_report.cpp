#include "apps/terminal/start_report.h"

#include "core/nvidia/cuda_library.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>

#include <time.h>
#include <unistd.h>

namespace whisker {

// Field 22 of /proc/self/stat: the start in clock ticks after boot (proc(5)).
double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  // The second field is the program's name in parentheses, which may hold anything.
  const size_t name_end = stat.rfind(')');
  timespec now{};
  if (name_end == std::string::npos || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return -1;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  uint64_t ticks = 0;
  if (!(fields >> ticks)) return -1;
  const double started = static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started;
}

StartReport::StartReport()
    : start_(Clock::now() - std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(seconds_since_process_start()))) {}

void StartReport::mark(std::string what) {
  marks_.emplace_back(std::chrono::duration<double>(Clock::now() - start_).count(),
                      std::move(what));
}

std::string StartReport::text(Device device) const {
  std::string text;
  for (const auto& [seconds, what] : marks_) text += fmt::format("{:9.3f} s  {}\n", seconds, what);
  if (const std::string line = device_start_text(device); !line.empty()) text += "  " + line + "\n";
  return text;
}

std::string device_start_text(Device device) {
  if (device.kind != DeviceKind::cuda) return "";
  const CudaStartTimes times = cuda_start_times(device);
  return fmt::format(
      "start of {}: driver {:.3f} s, library {:.3f}, context {:.3f}, cuBLASLt {:.3f}, cuDNN "
      "{:.3f}, first plans {:.3f}",
      device, times.driver, times.library, times.context, times.cublas_lt, times.cudnn,
      times.plans);
}

}  // namespace whisker
