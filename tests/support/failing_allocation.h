// What is left of MemoryOptions::failing_allocation.
#pragma once

#include "core/backend/backend.h"

#include <cstdint>
#include <optional>

namespace whisker::test {

/// Allocations until the failing one, at most `most`; nullopt: it has failed before.
inline std::optional<int64_t> until_failure(Backend& backend, int64_t most) {
  constexpr MemoryCategory category = MemoryCategory::workspace;
  for (int64_t count = 1; count <= most; ++count) {
    try {
      backend.deallocate(backend.allocate(1, category), 1, category);
    } catch (const OutOfMemory&) {
      return count;
    }
  }
  return std::nullopt;
}

}  // namespace whisker::test
