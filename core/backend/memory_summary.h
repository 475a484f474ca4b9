// Where a device's memory is, for people: what holds it, what is cached, what the rest of the
// machine has of it.
#pragma once

#include "core/memory/memory.h"
#include "core/tensor/device.h"

#include <string>

namespace whisker {

/// The memory of the device's backend, made if need be. Its parts add up to what the driver shows.
MemorySummary memory_summary(Device device);

/// Several lines; the first is "memory of cuda:0: ...", the others are indented by two.
std::string to_text(const MemorySummary& summary, Device device);

}  // namespace whisker
