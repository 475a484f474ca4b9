// Starts a GPU and its libraries in the background, while files are read and networks built. Each
// takes about a quarter of a second.
#pragma once

#include "core/nvidia/cuda_library.h"
#include "layers/module.h"

#include <string>
#include <thread>
#include <vector>

namespace whisker {

/// Starts the driver and the context of `device` (auto, cpu, cuda, ...) in its own thread, if that
/// is a GPU. backend_of() waits for them and reports their errors. The destructor waits, too.
class DeviceStart {
 public:
  explicit DeviceStart(const std::string& device);

 private:
  std::jthread thread_;
};

/// The CUDA libraries that the layers of `network` may use.
std::vector<CudaLibrary> libraries_of(const Module& network);

/// Opens `libraries` in its own thread, if `device` is a GPU. The layer that needs a library
/// reports that it cannot be opened. The destructor waits.
class LibraryStart {
 public:
  LibraryStart(Device device, std::vector<CudaLibrary> libraries);
  /// Waits until all are open.
  void wait();

 private:
  std::jthread thread_;
};

}  // namespace whisker
