// Starting a GPU takes a quarter of a second, and opening its libraries as long again: beside it
// files are read and networks built.
#pragma once

#include "core/cuda_library.h"
#include "layers/module.h"

#include <string>
#include <thread>
#include <vector>

namespace whisker {

/// Starts the driver and the context of what `device` (auto, cpu, cuda, ...) means here, in a
/// thread of its own, where that is a GPU. backend_of() waits for them, and says what is wrong with
/// them. The end of this object's life waits for what has begun.
class DeviceStart {
 public:
  explicit DeviceStart(const std::string& device);

 private:
  std::jthread thread_;
};

/// What of CUDA's libraries the layers of `network` may compute with.
std::vector<CudaLibrary> libraries_of(const Module& network);

/// Opens `libraries` in a thread of its own, where `device` is a GPU. One that cannot be opened is
/// reported by the layer that needs it. The end of this object's life waits for what has begun.
class LibraryStart {
 public:
  LibraryStart(Device device, std::vector<CudaLibrary> libraries);
  /// Until all are open.
  void wait();

 private:
  std::jthread thread_;
};

}  // namespace whisker
