#include "train/device_start.h"

#include "core/cuda_library.h"
#include "core/error.h"
#include "train/experiment.h"

namespace whisker {

DeviceStart::DeviceStart(const std::string& device, StartParts parts) {
  if (device != "auto" && !device.starts_with("cuda")) return;
  thread_ = std::jthread([device, parts] {
    try {
      if (cuda_device_count() == 0) return;
      const Device gpu = resolve_device(device);
      if (parts == StartParts::libraries) open_cuda_libraries(gpu);
    } catch (...) {
      // Whoever uses the device meets the same error, and reports it.
    }
  });
}

}  // namespace whisker
