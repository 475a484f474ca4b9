// The user's cache of timed choices, so that a second run need not time them again:
// $XDG_CACHE_HOME/whisker/cpu_plans.json (cuda_plans.json for a GPU), or the same in ~/.cache.
// Programs call this; the library itself reads and writes nothing there. It is a cache: whatever
// goes wrong with it is no error, the last of several writers wins, and it may be removed at any
// time.
#pragma once

#include "core/device.h"

#include <filesystem>

namespace whisker {

/// Where the cache lies; "" when the environment names neither folder.
std::filesystem::path plan_cache_path(Device device = cpu_device);

/// Takes over the cached choices, unless the device's options leave nothing to choose
/// (deterministic) or `device` is the reference. A resumed run takes those of its checkpoint
/// instead.
void load_plans(Device device);
/// Stores the choices of this process, cached ones included, if there are new ones; of a
/// deterministic device none.
void save_plans(Device device);

}  // namespace whisker
