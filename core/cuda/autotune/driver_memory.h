// Device memory for timing algorithms, directly from the driver: the allocator's peak and limit do
// not change. Whoever times catches OutOfMemory and chooses untimed.
#pragma once

#include "core/cuda/memory/allocator.h"

#include <cstdint>

namespace whisker::cuda {

class DriverMemory {
 public:
  /// Empties the allocator's cache where the driver has too little. Throws OutOfMemory when that
  /// does not help, or when this is MemoryOptions::failing_allocation.
  DriverMemory(Allocator& allocator, int64_t bytes);
  ~DriverMemory();
  DriverMemory(const DriverMemory&) = delete;
  DriverMemory& operator=(const DriverMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// True where the allocator can provide `bytes` now: what the workspace of a choice needs.
bool can_allocate(Allocator& allocator, int64_t bytes);

}  // namespace whisker::cuda
