// What the allocators report, and the category under which the current thread allocates.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace whisker {

enum class MemoryCategory : uint8_t {
  activations,
  parameters,
  gradients,
  optimizer,
  input,
  workspace
};
inline constexpr int memory_category_count = 6;
std::string_view name_of(MemoryCategory category);

/// The remedy in every out-of-memory error; training adds what would save how much.
inline constexpr const char* memory_remedy =
    "Use smaller batches (train.batch_size; classify and evaluate: --batch-size), smaller images "
    "or shorter sequences.";

/// Bytes of one device's allocator.
struct MemoryStats {
  int64_t allocated = 0;     ///< held by live storages
  int64_t reserved = 0;      ///< taken from the system, cache included
  int64_t peak = 0;          ///< highest `allocated` since the last reset
  int64_t peak_tensors = 0;  ///< likewise, of all categories but workspace
  std::array<int64_t, memory_category_count> by_category{};  ///< parts of `allocated`
};

/// Use of all of a device's memory. Parts that the system does not separate are counted together.
struct MemorySummary {
  MemoryStats stats;
  int64_t graph_pool = 0;              ///< part of stats.reserved that only captured graphs may use
  int64_t context = 0;                 ///< other memory of this process: driver, kernels, libraries
  std::optional<int64_t> others = {};  ///< other processes; unset: counted in `context`
  int64_t free = 0;                    ///< available from the driver or the system
  int64_t total = 0;                   ///< used() + free

  int64_t cache() const { return stats.reserved - stats.allocated; }
  /// Used memory as the driver reports it.
  int64_t used() const { return stats.reserved + context + others.value_or(0); }
};

/// Settings of an allocator.
struct MemoryOptions {
  int64_t limit_bytes = 0;         ///< total above which allocations fail; 0: no limit
  int64_t preallocate_bytes = 0;   ///< a GPU allocates this much at once and keeps it
  bool poison = false;             ///< fills new memory with NaN, which shows unwritten results
  int64_t failing_allocation = 0;  ///< the n-th allocation from now fails, once; 0: none
};

/// Allocations of this thread count under `category` while the scope lives.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
  static MemoryCategory current();

 private:
  MemoryCategory previous_;
};

}  // namespace whisker
