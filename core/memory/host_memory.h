// Host memory: the machine's total, and for one backend the accounting by category, a limit and
// aligned allocation. The reference backend uses this directly; a caching allocator calls charge()
// for every allocation and take()/give() only when it goes to the system.
#pragma once

#include "core/memory/memory.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace whisker {

/// The machine's memory as Linux shows it, in bytes; 0 where the system does not report it.
struct SystemMemory {
  int64_t total = 0;
  int64_t available = 0;  ///< available without swapping
  int64_t resident = 0;   ///< of this process
};

/// From /proc/meminfo and /proc/self/statm (proc(5)), now.
SystemMemory system_memory();

class HostMemory {
 public:
  /// `device` is the name in errors.
  explicit HostMemory(std::string device) : device_(std::move(device)) {}

  /// Records an allocation; throws device, with the use by category, when it exceeds the limit.
  void charge(int64_t bytes, MemoryCategory category);
  void release(int64_t bytes, MemoryCategory category);

  /// 64-byte aligned memory from the system (never null); throws device when there is none.
  void* take(int64_t bytes);
  void give(void* memory, int64_t bytes);
  /// Fills fresh memory with NaN bytes when poisoning is on; call for reused blocks too.
  void poison(void* memory, int64_t bytes) const;

  void set_options(const MemoryOptions& options);
  MemoryStats stats() const;
  void reset_peak();

 private:
  int64_t held_as(MemoryCategory category) const;
  [[noreturn]] void exhausted(int64_t bytes) const;

  std::string device_;
  std::atomic<int64_t> allocated_{0}, reserved_{0}, limit_{0}, failing_{0};
  std::atomic<int64_t> peak_{0}, peak_tensors_{0};
  std::atomic<bool> poison_{false};
  std::array<std::atomic<int64_t>, memory_category_count> by_category_{};
};

}  // namespace whisker
