// The check of an index that came as data, for host backends.
#pragma once

#include "core/error.h"

#include <cstdint>

namespace whisker {

/// Throws data, naming `op` and the place, unless index is in [0, extent).
inline void check_index(const char* op, int64_t index, int64_t extent, int64_t position) {
  if (index < 0 || index >= extent) {
    fail(ErrorKind::data, "{}: index {} at position {} is outside [0, {})", op, index, position,
         extent);
  }
}

}  // namespace whisker
