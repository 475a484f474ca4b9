// The user's cache of timed algorithm choices, so that later runs need not time them again:
// $XDG_CACHE_HOME/whisker/cpu_algorithms.json (cuda_algorithms.json for a GPU), or the same in
// ~/.cache. Only programs call this, never the library. A failure is not an error, the last of
// several writers wins, and the file may be removed at any time.
#pragma once

#include "core/tensor/device.h"

#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

/// Path of the cache; "" when the environment names neither folder.
std::filesystem::path autotune_cache_path(Device device = cpu_device);

/// Loads the cached choices, unless the device is deterministic or the reference. A resumed run
/// loads those of its checkpoint instead.
void load_algorithms(Device device);
/// Stores all choices of this process if there are new ones; none of a deterministic device.
/// Returns one line for each algorithm that failed when it was timed.
std::vector<std::string> save_algorithms(Device device);

}  // namespace whisker
