#include "train/device/device_start.h"

#include "core/work_progress.h"
#include "layers/conv2d.h"
#include "layers/recurrent.h"
#include "train/device/device_choice.h"

#include <functional>
#include <utility>

namespace whisker {
namespace {

bool any(const Module& module, const std::function<bool(const Module&)>& is_one) {
  if (is_one(module)) return true;
  for (const Module::Child& child : module.children()) {
    if (any(*child.module, is_one)) return true;
  }
  return false;
}

template <class Layer>
bool has(const Module& network) {
  return any(network,
             [](const Module& module) { return dynamic_cast<const Layer*>(&module) != nullptr; });
}

}  // namespace

DeviceStart::DeviceStart(const std::string& device) {
  if (device != "auto" && !device.starts_with("cuda")) return;
  thread_ = std::jthread([device](const std::stop_token& stop) {
    const WaitScope starts(Waiting::start);
    try {
      if (cuda_device_count() > 0 && !stop.stop_requested()) choose_device(device);
    } catch (...) {
      // Whoever uses the device meets the same error, and reports it.
    }
  });
}

// cuDNN is opened beside recurrent layers that our own kernels may turn out to compute: which do is
// decided by batches, by a table that is read later, and by timing both.
std::vector<CudaLibrary> libraries_of(const Module& network) {
  std::vector<CudaLibrary> libraries = {CudaLibrary::products};
  if (has<Conv2D>(network)) libraries.push_back(CudaLibrary::convolutions);
  if (has<Recurrent>(network)) libraries.push_back(CudaLibrary::recurrent_layers);
  return libraries;
}

LibraryStart::LibraryStart(Device device, std::vector<CudaLibrary> libraries) {
  if (device.kind != DeviceKind::cuda) return;
  thread_ = std::jthread([device, libraries = std::move(libraries)](const std::stop_token& stop) {
    const WaitScope starts(Waiting::start);
    try {
      for (const CudaLibrary library : libraries) {
        if (!stop.stop_requested()) open_cuda_library(device, library);
      }
    } catch (...) {
      // The layer that needs it meets the same error, and it is reported.
    }
  });
}

void LibraryStart::wait() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace whisker
