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

/// How every message on a lack of memory ends; training adds what would save how much.
inline constexpr const char* memory_remedy =
    "Use smaller batches (train.batch_size; classify and evaluate: --batch-size), smaller pictures "
    "or shorter sequences.";

/// Bytes of one device's allocator.
struct MemoryStats {
  int64_t allocated = 0;     ///< held by live storages
  int64_t reserved = 0;      ///< taken from the system, cache included
  int64_t peak = 0;          ///< highest `allocated` since the last reset
  int64_t peak_tensors = 0;  ///< likewise, of all categories but workspace
  std::array<int64_t, memory_category_count> by_category{};  ///< parts of `allocated`
};

/// Where all of a device's memory is. Parts that cannot be told apart are counted together.
struct MemorySummary {
  MemoryStats stats;
  int64_t graph_pool = 0;  ///< part of stats.reserved that only captured graphs may use
  int64_t context = 0;     ///< of this process besides: driver, kernels, libraries, the program
  std::optional<int64_t> others = {};  ///< other processes; unset: counted in `context`
  int64_t free = 0;                    ///< that the driver, or the system, could still give
  int64_t total = 0;                   ///< used() + free

  int64_t cache() const { return stats.reserved - stats.allocated; }
  /// What the driver shows as used.
  int64_t used() const { return stats.reserved + context + others.value_or(0); }
};

/// What tests and users may ask of an allocator.
struct MemoryOptions {
  int64_t limit_bytes =
      0;  ///< more than this in all fails as if memory were exhausted; 0: no limit
  int64_t preallocate_bytes = 0;  ///< a GPU takes this much at once and keeps it
  bool poison = false;  ///< fresh memory is filled with NaN, so that unwritten results show
  int64_t failing_allocation = 0;  ///< the n-th allocation from now fails, once; 0: none does
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
