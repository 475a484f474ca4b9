// How large the elements of an array are, for decisions that depend on their being finite.
#pragma once

#include <cstdint>

namespace whisker::cpu {

/// The largest |x|, 0 for none; NaN when an element is NaN, else infinity when one is infinite.
float largest_magnitude(const float* x, int64_t count);

}  // namespace whisker::cpu
