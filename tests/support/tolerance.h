// How close is close, stated once: from the type's rounding and the length of the longest sum.
// NaN is close to nothing; an infinity only to itself.
#pragma once

#include "core/tensor/dtype.h"
#include "core/tensor/unit_roundoff.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {

/// Error allowed relative to the largest element, for a result computed in `dtype` whose longest
/// sum has `terms` terms. Rounding errors of a sum grow like sqrt(terms) (Higham and Mary 2019);
/// 16-bit types accumulate in f32, so their sums add little to the rounding of the operands.
inline double tolerance(DType dtype, int64_t terms) {
  const DType accumulator = dtype == DType::f64 ? DType::f64 : DType::f32;
  return 8 * unit_roundoff(dtype) +
         8 * unit_roundoff(accumulator) * std::sqrt(static_cast<double>(terms));
}

/// Every element of `got` within `relative` times the larger of `scale` and the largest of `want`.
inline ::testing::AssertionResult close(const std::vector<double>& got,
                                        const std::vector<double>& want, double relative,
                                        double scale) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " elements, expected " << want.size();
  }
  for (const double value : want) {
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  }
  for (size_t i = 0; i < want.size(); ++i) {
    const bool same =
        std::isinf(want[i]) ? got[i] == want[i] : std::fabs(got[i] - want[i]) <= relative * scale;
    if (!same) {
      return ::testing::AssertionFailure()
             << "element " << i << " of " << want.size() << ": got " << got[i] << ", expected "
             << want[i] << ", allowed difference " << relative * scale;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace whisker::test
