// A caching allocator: freed blocks are kept in size bins for later requests of the same bin.
#pragma once

#include "core/memory/host_memory.h"

#include <array>
#include <cstdint>
#include <mutex>

namespace whisker::cpu {

class Allocator {
 public:
  Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator();

  /// 64-byte aligned memory. Throws device when the limit or the system forbids it. Thread-safe.
  void* allocate(int64_t bytes, MemoryCategory category);
  /// `bytes` and `category` as they were allocated. Any thread may free.
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) noexcept;
  /// Frees cached blocks to the system.
  void empty_cache();

  HostMemory& books() { return books_; }
  const HostMemory& books() const { return books_; }

 private:
  // Blocks of one size, linked through their first bytes, so that freeing never allocates.
  struct FreeBlocks {
    void* first = nullptr;
    int64_t bytes = 0;  // of a block, once there was one
    void push(void* memory) noexcept;
    void* pop() noexcept;  // null when there is none
  };
  static constexpr int bin_count = 64 * 8;

  void* from_system(int64_t bytes);

  HostMemory books_{"cpu"};
  std::mutex mutex_;
  std::array<FreeBlocks, bin_count> bins_;  // guarded by mutex_
};

/// Typed scratch memory for the length of a scope.
template <class T>
class Scratch {
 public:
  Scratch(Allocator& allocator, int64_t count)
      : allocator_(&allocator), bytes_(count * static_cast<int64_t>(sizeof(T))) {
    data_ = static_cast<T*>(allocator.allocate(bytes_, MemoryCategory::workspace));
  }
  ~Scratch() { allocator_->deallocate(data_, bytes_, MemoryCategory::workspace); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  Allocator* allocator_;
  int64_t bytes_;
  T* data_;
};

}  // namespace whisker::cpu
