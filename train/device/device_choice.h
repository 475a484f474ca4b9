// Which device `device: auto` selects, and why it is the CPU despite a GPU.
#pragma once

#include "core/tensor/device.h"

#include <string>

namespace whisker {

struct DeviceChoice {
  Device device;
  std::string note = {};  ///< why auto is the CPU although there is a GPU; "" otherwise
};

/// The device that `text` (auto, cpu, cuda, ...) selects: auto is cuda:0 if it starts, else the
/// CPU. Throws device when the named device cannot be used.
DeviceChoice choose_device(const std::string& text);

}  // namespace whisker
