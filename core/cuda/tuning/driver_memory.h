// Device memory for what choosing algorithms needs once, from the driver itself: the allocator's
// peak and limit stay those of the work. Where there is none, the choice is made without: whoever
// takes it catches OutOfMemory.
#pragma once

#include "core/cuda/memory/allocator.h"

#include <cstdint>
#include <deque>

namespace whisker::cuda {

class DriverMemory {
 public:
  /// Where the driver has too little, the allocator's cache goes back to it first. Throws
  /// OutOfMemory when that does not help, or when this is MemoryOptions::failing_allocation.
  DriverMemory(Allocator& allocator, int64_t bytes);
  ~DriverMemory();
  DriverMemory(const DriverMemory&) = delete;
  DriverMemory& operator=(const DriverMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// True where the allocator can give so much, which is what a choice will work in.
bool has_room(Allocator& allocator, int64_t bytes);

/// Pieces of it, kept together.
class DriverMemories {
 public:
  explicit DriverMemories(Allocator& allocator) : allocator_(allocator) {}
  void* take(int64_t bytes) { return pieces_.emplace_back(allocator_, bytes).data(); }
  float* take_floats(int64_t count) {
    return static_cast<float*>(take(count * int64_t{sizeof(float)}));
  }

 private:
  Allocator& allocator_;
  std::deque<DriverMemory> pieces_;
};

}  // namespace whisker::cuda
