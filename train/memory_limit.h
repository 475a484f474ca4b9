// runtime.memory: what a run may take of its device's memory, and when it takes it.
#pragma once

#include "core/device.h"
#include "train/config.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace whisker {

/// Bytes of a limit such as "2GiB", or "0.5" for that share of `total`; 0 for "", which is no
/// limit. Nothing when it is none of these, or no bytes at all.
std::optional<int64_t> memory_limit(std::string_view text, int64_t total);

/// Whether a run takes its memory on `device` at once.
bool preallocates(MemoryMode mode, Device device);

/// Hands the limit and the reserve to the device's allocator; leaves what others have set when the
/// configuration asks for neither. Throws device when a reserve cannot be had.
void limit_memory(const MemoryConfig& config, Device device);

}  // namespace whisker
