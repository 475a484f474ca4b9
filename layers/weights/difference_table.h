// The table of all differences between a file's tensors and a model's parameters, as an error.
#pragma once

#include "core/io/safetensors.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct TensorDifference {
  const char* kind;  ///< "missing", "unexpected" or "misshaped"
  std::string name;
  std::string detail;
  std::vector<uint64_t> shape = {};  ///< of what has no counterpart: the nearest name of it helps
  bool alone = false;
};

/// Throws checkpoint with one row for each difference, and the remedy: with `only_head` the head's
/// number of classes is all that differs.
[[noreturn]] void fail_with_table(const SafetensorsFile& file,
                                  const std::vector<TensorDifference>& differences, bool only_head);

}  // namespace whisker
