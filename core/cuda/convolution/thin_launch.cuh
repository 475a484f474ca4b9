// The host's side of thin convolutions: which shapes are compiled, and how outputs are cut.
#pragma once

#include "core/cuda/convolution/convolution.h"
#include "core/cuda/convolution/thin_convolution.cuh"

#include <algorithm>

namespace whisker::cuda {

/// Calls fn.operator()<ThinShape>() for the compiled shape of `g`; false when there is none.
template <class Fn>
bool visit_thin_shape(const Conv2dGeometry& g, Fn&& fn) {
  if (g.kernel_h != g.kernel_w || g.stride_h != g.stride_w) return false;
  const auto is = [&](int64_t channels, int64_t kernel, int64_t stride) {
    return g.c == channels && g.kernel_h == kernel && g.stride_h == stride;
  };
  if (is(1, 3, 1)) return fn.template operator()<ThinShape<1, 3, 1>>(), true;
  if (is(3, 3, 1)) return fn.template operator()<ThinShape<3, 3, 1>>(), true;
  if (is(3, 3, 2)) return fn.template operator()<ThinShape<3, 3, 2>>(), true;
  if (is(3, 7, 2)) return fn.template operator()<ThinShape<3, 7, 2>>(), true;
  return false;
}

/// Large kernels take 16-bit types only.
template <class T, class S>
inline constexpr bool compiled = S::kernel <= 3 || sizeof(T) == 2;

/// Outputs of `g` in tiles of about `places`, an even number of rows and columns by sixteens.
inline ThinPlaces thin_places(const Conv2dGeometry& g, int places) {
  ThinPlaces p{.n = static_cast<int>(g.n),
               .h = static_cast<int>(g.h),
               .w = static_cast<int>(g.w),
               .h_out = static_cast<int>(g.h_out),
               .w_out = static_cast<int>(g.w_out),
               .c_out = static_cast<int>(g.c_out),
               .pad_top = static_cast<int>(g.pad_top),
               .pad_left = static_cast<int>(g.pad_left)};
  p.tile_columns = std::min({(p.w_out + 15) / 16 * 16, places / 2 / 16 * 16, 128});
  p.tile_rows = std::min((p.h_out + 1) / 2 * 2, places / p.tile_columns / 2 * 2);
  p.tiles_across = (p.w_out + p.tile_columns - 1) / p.tile_columns;
  p.tiles_down = (p.h_out + p.tile_rows - 1) / p.tile_rows;
  return p;
}

inline int tile_count(const ThinPlaces& p) {
  return p.n * p.tiles_down * p.tiles_across;
}

}  // namespace whisker::cuda
