// The check of a class label, for host backends: labels are data, which operators do not read.
#pragma once

#include "core/error.h"

#include <cstdint>

namespace whisker {

/// Throws data, naming `op` and the row, unless label is in [0, classes).
inline void check_label(const char* op, int64_t label, int64_t classes, int64_t row) {
  if (label < 0 || label >= classes) {
    fail(ErrorKind::data, "{}: label {} of row {} is outside [0, {}).", op, label, row, classes);
  }
}

}  // namespace whisker
