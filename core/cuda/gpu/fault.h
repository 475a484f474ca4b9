// What a kernel found wrong with the data. Kernels cannot throw and the host does not wait for
// them: a kernel that meets a bad label or index skips it and leaves a note in host memory that the
// GPU can write; the next wait of the host throws what it finds there (Context::synchronize).
#pragma once

#include <cstdint>

namespace whisker::cuda {

enum class FaultPlace : uint8_t { cross_entropy, gather, embedding, one_hot };
inline constexpr int fault_places = 4;

/// The note of one place; any of several bad values may stay.
struct Fault {
  int64_t value = 0;   ///< the label or index
  int64_t row = 0;     ///< of a label
  int64_t extent = 0;  ///< it should have been in [0, extent)
  int32_t set = 0;
};

}  // namespace whisker::cuda
