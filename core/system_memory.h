// The machine's memory as Linux shows it.
#pragma once

#include <cstdint>

namespace whisker {

/// Bytes; 0 where the system does not tell.
struct SystemMemory {
  int64_t total = 0;
  int64_t available = 0;  ///< what it could still give without swapping
  int64_t resident = 0;   ///< of this process
};

/// From /proc/meminfo and /proc/self/statm (proc(5)), now.
SystemMemory system_memory();

}  // namespace whisker
