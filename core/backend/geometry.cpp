// Broadcasting, reduction and copy walks, with neighbouring axes merged so that kernels see few.
#include "core/backend/geometry.h"

#include "core/tensor/shape.h"

#include <cmath>

namespace whisker {

static_assert(max_rank == Shape::max_rank);

double AttentionGeometry::scale() const {
  return 1 / std::sqrt(static_cast<double>(head_size));
}

BroadcastGeometry BroadcastGeometry::of(const Shape& a, const Shape& b, const Shape& out) {
  BroadcastGeometry g;
  g.count = out.count();
  if (a == b) {
    g.rank = 1;
    g.extent[0] = g.count;
    g.a_stride[0] = g.b_stride[0] = 1;
    return g;
  }
  // From the last axis to the first, merging into the axis before; then turned around.
  int64_t a_stride = 1, b_stride = 1;
  for (int i = 1; i <= out.rank(); ++i) {
    const int64_t extent = out[-i];
    const int64_t a_extent = i <= a.rank() ? a[-i] : 1;
    const int64_t b_extent = i <= b.rank() ? b[-i] : 1;
    const int64_t a_step = a_extent == 1 ? 0 : a_stride;
    const int64_t b_step = b_extent == 1 ? 0 : b_stride;
    a_stride *= a_extent;
    b_stride *= b_extent;
    if (extent == 1) continue;
    const auto last = static_cast<size_t>(g.rank);
    if (g.rank > 0 && a_step == g.a_stride[last - 1] * g.extent[last - 1] &&
        b_step == g.b_stride[last - 1] * g.extent[last - 1]) {
      g.extent[last - 1] *= extent;
      continue;
    }
    g.extent[last] = extent;
    g.a_stride[last] = a_step;
    g.b_stride[last] = b_step;
    ++g.rank;
  }
  for (size_t i = 0, j = static_cast<size_t>(g.rank); i + 1 < j; ++i) {
    --j;
    std::swap(g.extent[i], g.extent[j]);
    std::swap(g.a_stride[i], g.a_stride[j]);
    std::swap(g.b_stride[i], g.b_stride[j]);
  }
  return g;
}

ReduceGeometry ReduceGeometry::of(const Shape& x, const AxisMask& mask) {
  ReduceGeometry g;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t extent = x[i];
    const bool reduced = mask[static_cast<size_t>(i)];
    (reduced ? g.reduce_count : g.out_count) *= extent;
    if (extent == 1) continue;
    const auto last = static_cast<size_t>(g.rank);
    if (g.rank > 0 && g.reduced[last - 1] == reduced) {
      g.extent[last - 1] *= extent;
    } else {
      g.extent[last] = extent;
      g.reduced[last] = reduced;
      ++g.rank;
    }
  }
  return g;
}

void CopyGeometry::append(int64_t step_count, int64_t from_stride, int64_t to_stride) {
  if (step_count == 1) return;
  const auto last = static_cast<size_t>(rank);
  if (rank > 0 && source_stride[last - 1] == from_stride * step_count &&
      target_stride[last - 1] == to_stride * step_count) {
    extent[last - 1] *= step_count;
    source_stride[last - 1] = from_stride;
    target_stride[last - 1] = to_stride;
    return;
  }
  extent[last] = step_count;
  source_stride[last] = from_stride;
  target_stride[last] = to_stride;
  ++rank;
}

}  // namespace whisker
