#include "apps/start_report.h"

#include "apps/process_time.h"
#include "core/cuda_library.h"

namespace whisker {

StartReport::StartReport()
    : start_(Clock::now() - std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(seconds_since_process_start()))) {}

void StartReport::mark(std::string what) {
  marks_.emplace_back(std::chrono::duration<double>(Clock::now() - start_).count(),
                      std::move(what));
}

std::string StartReport::text(Device device) const {
  std::string text;
  for (const auto& [seconds, what] : marks_) text += fmt::format("{:7.3f} s  {}\n", seconds, what);
  if (const std::string line = device_start_text(device); !line.empty()) text += line + "\n";
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
