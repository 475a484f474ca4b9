// What the reference loops share: typed pointers, dispatch on the real types, and the walk over
// the indices of a shape.
#pragma once

#include "core/backend/geometry.h"
#include "core/tensor/convert.h"
#include "core/tensor/tensor.h"

#include <cstdint>

namespace whisker {

/// The elements of x; null when x is undefined.
template <class T>
T* elements(const Tensor& x) {
  return x.defined() ? static_cast<T*>(x.raw()) : nullptr;
}

/// Calls fn.operator()<T>() with T = float or double.
template <class Fn>
void visit_real(const char* op, DType dtype, Fn&& fn) {
  if (dtype == DType::f32) return fn.template operator()<float>();
  if (dtype == DType::f64) return fn.template operator()<double>();
  fail(ErrorKind::usage, "{}: the reference backend computes in f32 and f64, got {}. Use to(f32).",
       op, dtype);
}

/// Calls fn(index) for every index below `extent`, the last axis fastest.
template <class Fn>
void for_each_index(int rank, const Extents& extent, Fn&& fn) {
  for (int axis = 0; axis < rank; ++axis) {
    if (extent[static_cast<size_t>(axis)] == 0) return;
  }
  Extents index{};
  for (;;) {
    fn(index);
    int axis = rank - 1;
    while (axis >= 0 && ++index[static_cast<size_t>(axis)] == extent[static_cast<size_t>(axis)]) {
      index[static_cast<size_t>(axis--)] = 0;
    }
    if (axis < 0) return;
  }
}

/// Sum of index times stride: the position of an element in a strided walk.
inline int64_t position(const Extents& index, const Extents& stride, int rank) {
  int64_t sum = 0;
  for (size_t axis = 0; axis < static_cast<size_t>(rank); ++axis) sum += index[axis] * stride[axis];
  return sum;
}

}  // namespace whisker
