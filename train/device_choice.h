// Which device `device: auto` means, and why it is the CPU where one expects a GPU.
#pragma once

#include "core/device.h"

#include <string>

namespace whisker {

struct DeviceChoice {
  Device device;
  std::string note = {};  ///< why auto is the CPU although there is a GPU; "" otherwise
};

/// The device that `text` (auto, cpu, cuda, ...) means here: auto is cuda:0 where that starts, else
/// the CPU. Throws device when the one that is named cannot be used.
DeviceChoice choose_device(const std::string& text);

}  // namespace whisker
