// What is kept of a tensor that is too large to keep its values.
#pragma once

#include "core/tensor/dtype.h"

#include <array>
#include <cstdint>
#include <span>

namespace whisker {

/// Statistics of the finite elements.
struct TensorStatistics {
  double mean = 0, deviation = 0, minimum = 0, maximum = 0;
  double norm = 0;  ///< Euclidean
  int64_t zeros = 0, not_finite = 0;
  std::array<int64_t, 32> histogram = {};  ///< equal bins from minimum to maximum
  bool operator==(const TensorStatistics&) const = default;

  static TensorStatistics of(std::span<const double> values);
  /// The statistics of `count` elements in host memory.
  static TensorStatistics of(const void* values, DType dtype, int64_t count);
};

}  // namespace whisker
