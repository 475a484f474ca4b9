// How large the elements of an array are, for decisions that depend on their being finite.
#pragma once

#include <cstdint>

namespace whisker::cpu {

/// The largest |x|, 0 for none; NaN when an element is NaN, else infinity when one is infinite.
/// T is float or bf16_t.
template <class T>
float largest_magnitude(const T* x, int64_t count);

}  // namespace whisker::cpu
