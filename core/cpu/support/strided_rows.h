// The outer walk over strided operands: rows of their last axis.
#pragma once

#include "core/backend/geometry.h"
#include "core/cpu/support/parallel.h"

#include <array>
#include <cstddef>

namespace whisker::cpu {

/// Calls fn(row, at) for every row of the last axis, in parallel; `at` are its positions in N
/// operands of these strides. Requires a rank above 0.
template <size_t N, class Fn>
void for_each_strided_row(int rank, const Extents& extent, const std::array<Extents, N>& strides,
                          Fn&& fn) {
  const auto last = static_cast<size_t>(rank - 1);
  int64_t rows = 1;
  for (size_t axis = 0; axis < last; ++axis) rows *= extent[axis];
  if (rows == 0 || extent[last] == 0) return;
  parallel_ranges(rows, rows_grain(extent[last]), [&](int64_t begin, int64_t end, int) {
    Extents position{};
    std::array<int64_t, N> at{};
    int64_t rest = begin;
    for (size_t axis = last; axis-- > 0; rest /= extent[axis]) {
      position[axis] = rest % extent[axis];
      for (size_t n = 0; n < N; ++n) at[n] += position[axis] * strides[n][axis];
    }
    for (int64_t row = begin; row < end; ++row) {
      fn(row, at);
      for (size_t axis = last; axis-- > 0; position[axis] = 0) {
        for (size_t n = 0; n < N; ++n) at[n] += strides[n][axis];
        if (++position[axis] < extent[axis]) break;
        for (size_t n = 0; n < N; ++n) at[n] -= position[axis] * strides[n][axis];
      }
    }
  });
}

/// One row of a broadcast: positions in a, b and y, and strides along it, 0 or 1.
struct BroadcastRow {
  int64_t a = 0, b = 0, y = 0;
  int64_t a_stride = 0, b_stride = 0;
  int64_t length = 1;
};

/// Calls fn(BroadcastRow) for every row of g, in parallel.
template <class Fn>
void for_each_row(const BroadcastGeometry& g, Fn&& fn) {
  if (g.count == 0) return;
  if (g.rank == 0) return fn(BroadcastRow{});
  const auto last = static_cast<size_t>(g.rank - 1);
  const int64_t length = g.extent[last];
  for_each_strided_row<2>(
      g.rank, g.extent, {g.a_stride, g.b_stride}, [&](int64_t row, const auto& at) {
        fn(BroadcastRow{at[0], at[1], row * length, g.a_stride[last], g.b_stride[last], length});
      });
}

}  // namespace whisker::cpu
