// Element number to coordinates, for strided walks. Divisions are of 32 bits where the count
// allows: 64-bit divisions take several times as long.
#pragma once

#include "core/backend/geometry.h"

#include <cstdint>

namespace whisker::cuda {

template <class Index, class Fn>
__device__ inline void visit_coordinates(int rank, const Extents& extent, int64_t element,
                                         const Fn& fn) {
  auto rest = static_cast<Index>(element);
  for (int axis = rank - 1; axis > 0; --axis) {
    const auto size = static_cast<Index>(extent[axis]);
    const Index quotient = rest / size;
    fn(axis, static_cast<int64_t>(rest - quotient * size));
    rest = quotient;
  }
  if (rank > 0) fn(0, static_cast<int64_t>(rest));
}

/// Calls fn(axis, coordinate) for every axis of element number `element` of `count` (row-major).
template <class Fn>
__device__ inline void for_each_coordinate(int rank, const Extents& extent, int64_t count,
                                           int64_t element, const Fn& fn) {
  if (count <= INT32_MAX) {
    visit_coordinates<uint32_t>(rank, extent, element, fn);
  } else {
    visit_coordinates<uint64_t>(rank, extent, element, fn);
  }
}

}  // namespace whisker::cuda
