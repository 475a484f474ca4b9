// Which device `device: auto` selects, and why it is the CPU despite a GPU.
#pragma once

#include "core/communicator/rank_group.h"
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

/// What `text` means for one rank of a run: the device of a list at the rank's number on its
/// machine; of several ranks each its own GPU for auto and cuda, when there are GPUs. Throws usage
/// for a list that is too short, device for too few GPUs.
std::string device_of_rank(const std::string& text, const RankGroup& ranks);

}  // namespace whisker
