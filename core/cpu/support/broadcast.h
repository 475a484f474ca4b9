// The outer walk of a broadcast: rows of the last axis, along which strides are 0 or 1.
#pragma once

#include "core/backend/geometry.h"
#include "core/cpu/support/parallel.h"

namespace whisker::cpu {

/// One row of a broadcast: positions in a, b and y, and strides along it.
struct BroadcastRow {
  int64_t a = 0, b = 0, y = 0;
  int64_t a_stride = 0, b_stride = 0;
  int64_t length = 1;
};

/// Calls fn(BroadcastRow) for every row of g, in parallel.
template <class Fn>
void for_each_row(const BroadcastGeometry& g, Fn&& fn) {
  if (g.count == 0) return;
  const int last = g.rank - 1;
  if (last < 0) return fn(BroadcastRow{});
  const int64_t a_stride = g.a_stride[static_cast<size_t>(last)];
  const int64_t b_stride = g.b_stride[static_cast<size_t>(last)];
  const int64_t length = g.extent[static_cast<size_t>(last)];
  const int64_t rows = g.count / length;
  parallel_ranges(rows, rows_grain(length), [&](int64_t begin, int64_t end, int) {
    Extents position{};
    int64_t rest = begin;
    int64_t a_at = 0;
    int64_t b_at = 0;
    for (int axis = last - 1; axis >= 0; --axis) {
      const auto i = static_cast<size_t>(axis);
      position[i] = rest % g.extent[i];
      rest /= g.extent[i];
      a_at += position[i] * g.a_stride[i];
      b_at += position[i] * g.b_stride[i];
    }
    for (int64_t row = begin; row < end; ++row) {
      fn(BroadcastRow{a_at, b_at, row * length, a_stride, b_stride, length});
      for (int axis = last - 1; axis >= 0; --axis) {
        const auto i = static_cast<size_t>(axis);
        a_at += g.a_stride[i];
        b_at += g.b_stride[i];
        if (++position[i] < g.extent[i]) break;
        a_at -= position[i] * g.a_stride[i];
        b_at -= position[i] * g.b_stride[i];
        position[i] = 0;
      }
    }
  });
}

}  // namespace whisker::cpu
