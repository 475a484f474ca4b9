// A caching allocator of device memory: segments from the driver are cut into blocks, freed blocks
// wait sorted by size for the next best fit and merge with free neighbours. All work is ordered on
// one stream, so a freed block may be reused at once. A captured graph has a pool of its own.
#pragma once

#include "core/cuda/context.h"
#include "core/memory.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

namespace whisker::cuda {

class Allocator {
 public:
  explicit Allocator(Context& context);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// 256-byte aligned device memory. Throws device, with need, free and holders, when neither the
  /// limit nor the GPU leaves any even after the cache was given back. Thread-safe.
  void* allocate(int64_t bytes, MemoryCategory category);
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) noexcept;
  /// Gives unused segments back to the driver.
  void empty_cache();

  void set_options(const MemoryOptions& options);
  MemoryStats stats() const;
  void reset_peak();
};

/// Device memory for the length of a scope, counted as workspace.
class Scratch {
 public:
  Scratch(Allocator& allocator, int64_t bytes)
      : allocator_(&allocator),
        bytes_(bytes),
        data_(allocator.allocate(bytes, MemoryCategory::workspace)) {}
  ~Scratch() { allocator_->deallocate(data_, bytes_, MemoryCategory::workspace); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  Allocator* allocator_;
  int64_t bytes_;
  void* data_;
};

}  // namespace whisker::cuda
