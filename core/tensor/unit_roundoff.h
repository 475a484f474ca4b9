// What one rounding to an element type may be off by.
#pragma once

#include "core/tensor/dtype_name.h"

namespace whisker {

/// Largest relative error of one rounding to `dtype`: half the distance from 1 to the next larger
/// number, 2^-24 in f32. 0 of types without fractions.
constexpr double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0;
  }
}

}  // namespace whisker
