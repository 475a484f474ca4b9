#include "train/device/device_choice.h"

#include "core/error.h"
#include "core/nvidia/cuda_library.h"
#include "core/nvidia/cuda_usable.h"
#include "train/config/device_name.h"

namespace whisker {

DeviceChoice choose_device(const std::string& text) {
  if (const auto remedy = device_remedy(text)) {
    fail(ErrorKind::usage, "device: expected {}, got '{}'.{}{}", device_names, text,
         remedy->empty() ? "" : " ", *remedy);
  }
  if (text != "auto") {
    const Device device = Device::parse(text);
    backend_of(device);  // throws when this build or machine lacks it
    return {device};
  }
  if (!cuda_is_expected(cuda_facts())) return {cpu_device};
  constexpr Device gpu{DeviceKind::cuda, 0};
  const std::string why = why_no_cuda(gpu);
  if (why.empty()) return {gpu};
  return {cpu_device, fmt::format("device: auto is the CPU, as the GPU cannot be used: {}", why)};
}

}  // namespace whisker
