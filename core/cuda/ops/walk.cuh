// Element number to coordinates, for strided walks. Where the count allows, divisions are of 32
// bits, computed as multiplications.
#pragma once

#include "core/backend/geometry.h"

#include <array>
#include <bit>
#include <cstdint>

namespace whisker::cuda {

/// The extents of a walk, to divide element numbers by. Index is uint64_t, or uint32_t for numbers
/// below 2^31: n / d is then n m / 2^(32 + s) with s = ceil(log2 d) and m = floor(2^(32 + s) / d) +
/// 1 (Granlund and Montgomery 1994), where m - 2^32 is what is kept of m.
template <class Index>
class Divisors {
 public:
  /// Extents are above 0.
  Divisors(int rank, const Extents& extent) {
    for (size_t axis = 0; axis < static_cast<size_t>(rank); ++axis) {
      const auto d = static_cast<uint64_t>(extent[axis]);
      extent_[axis] = static_cast<Index>(d);
      if constexpr (sizeof(Index) == 4) {
        shift_[axis] = static_cast<uint32_t>(std::bit_width(d - 1));
        const uint64_t above = (uint64_t{1} << shift_[axis]) - d;
        factor_[axis] = static_cast<uint32_t>((above << 32) / d + 1);
      }
    }
  }

  __device__ Index extent(int axis) const { return extent_[axis]; }
  __device__ Index quotient(Index n, int axis) const {
    if constexpr (sizeof(Index) == 4) {
      return (__umulhi(n, factor_[axis]) + n) >> shift_[axis];
    } else {
      return n / extent_[axis];
    }
  }

 private:
  std::array<Index, max_rank> extent_{};
  std::array<uint32_t, max_rank> factor_{}, shift_{};
};

/// Calls fn(axis, coordinate) for every axis of element number `element` (row-major).
template <class Index, class Fn>
__device__ inline void visit_coordinates(int rank, const Divisors<Index>& by, Index element,
                                         const Fn& fn) {
  for (int axis = rank - 1; axis > 0; --axis) {
    const Index quotient = by.quotient(element, axis);
    fn(axis, element - quotient * by.extent(axis));
    element = quotient;
  }
  if (rank > 0) fn(0, element);
}

/// Offsets of an element in two operands.
struct Offsets {
  int64_t a, b;
};
/// Computed as Offset.
template <class Offset, class Index>
__device__ inline Offsets offsets_of(int rank, const Divisors<Index>& by, int64_t element,
                                     const Extents& a_stride, const Extents& b_stride) {
  Offset a = 0, b = 0;
  visit_coordinates(rank, by, static_cast<Index>(element), [&](int axis, Index coordinate) {
    a += static_cast<Offset>(coordinate) * static_cast<Offset>(a_stride[axis]);
    b += static_cast<Offset>(coordinate) * static_cast<Offset>(b_stride[axis]);
  });
  return {static_cast<int64_t>(a), static_cast<int64_t>(b)};
}

/// Calls run.operator()<Index>() with the type of Divisors for `count` elements.
template <class Run>
void with_index(int64_t count, const Run& run) {
  if (count <= INT32_MAX) return run.template operator()<uint32_t>();
  run.template operator()<uint64_t>();
}

}  // namespace whisker::cuda
