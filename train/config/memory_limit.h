// runtime.memory: how much of its device's memory a run may use, and when it allocates it.
#pragma once

#include "core/tensor/device.h"
#include "train/config/config.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace whisker {

/// Bytes of a limit such as "2GiB", or "0.5" for that fraction of `total`; 0 for "", no limit.
/// Nothing for other text, or for a limit of no bytes.
std::optional<int64_t> memory_limit(std::string_view text, int64_t total);

/// Whether a run allocates its memory on `device` at once.
bool preallocates(MemoryMode mode, Device device);

/// Sets the limit and the reserve of the device's allocator; changes nothing when the configuration
/// has neither. Throws device when the reserve cannot be allocated.
void limit_memory(const MemoryConfig& config, Device device);

}  // namespace whisker
