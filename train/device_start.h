// Starting a GPU takes a quarter of a second in which the host has nothing to do: beside it, files
// are read and networks built.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

namespace whisker {

/// How much of CUDA is started: what a few of our own kernels need, or the libraries, too.
enum class StartParts : uint8_t { device, libraries };

/// Starts what `device` (auto, cpu, cuda, ...) means here, in a thread of its own, where that is a
/// GPU. backend_of() waits for the GPU, and says what is wrong with it. The end of this object's
/// life waits for everything.
class DeviceStart {
 public:
  DeviceStart(const std::string& device, StartParts parts);

 private:
  std::jthread thread_;
};

}  // namespace whisker
