// What the allocators report, and the category under which the current thread allocates.
#pragma once

#include <array>
#include <cstdint>
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

/// Bytes of one device's allocator.
struct MemoryStats {
  int64_t allocated = 0;  ///< held by live storages
  int64_t reserved = 0;   ///< taken from the system, cache included
  int64_t peak = 0;       ///< highest `allocated` since the last reset
  std::array<int64_t, memory_category_count> by_category{};  ///< parts of `allocated`
};

/// What tests and users may ask of an allocator.
struct MemoryOptions {
  int64_t limit_bytes =
      0;                ///< more than this in all fails as if memory were exhausted; 0: no limit
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
