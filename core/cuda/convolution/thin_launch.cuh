// The host's side of thin convolutions: which shapes are compiled, and how outputs are cut.
#pragma once

#include "core/cuda/convolution/thin_convolution.cuh"
#include "core/cuda/convolution/thin_convolution.h"
#include "core/cuda/device/early_launch.cuh"
#include "core/cuda/device/types.cuh"
#include "core/cuda/gpu/check.h"

#include <algorithm>

namespace whisker::cuda {

template <class... Shapes>
struct ThinShapes {
  template <class... More>
  constexpr ThinShapes<Shapes..., More...> operator+(ThinShapes<More...>) const {
    return {};
  }
};
inline constexpr ThinShapes<ThinShape<1, 3, 1>, ThinShape<3, 3, 1>, ThinShape<3, 3, 2>,
                            ThinShape<3, 7, 2>>
    first_layers{};
inline constexpr ThinShapes<ThinShape<32, 3, 1>> second_layers{};

/// Calls fn.operator()<element type, ThinShape, filters, pooled>() for `request`, which must be of
/// one of the shapes. Large kernels take 16-bit types only.
template <class... Shapes, class Fn>
void visit_thin(ThinShapes<Shapes...>, const ConvolutionRequest& request, const Fn& fn) {
  const Conv2dGeometry& g = request.geometry;
  const auto visited = [&]<class T, class S, int Filters>() {
    if constexpr (S::kernel <= 3 || sizeof(T) == 2) {
      if (g.c != S::channels || g.kernel_h != S::kernel || g.stride_h != S::stride) return false;
      if (g.c_out != Filters) return false;
      if constexpr (S::stride == 1) {
        if (request.pooled) return fn.template operator()<T, S, Filters, true>(), true;
      }
      return fn.template operator()<T, S, Filters, false>(), true;
    } else {
      return false;
    }
  };
  visit_real(g.dtype, [&]<class T>() {
    const bool found = ((visited.template operator()<T, Shapes, 32>() ||
                         visited.template operator()<T, Shapes, 64>()) ||
                        ...);
    if (!found) fail_thin(request);
  });
}

/// Launches `kernel` with `bytes` of shared memory, which may be more than a block has unasked.
template <class... Parameters, class... Arguments>
void launch_thin(const ConvolutionSite& site, size_t bytes, int blocks,
                 void (*kernel)(Parameters...), const Arguments&... arguments) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "asking for shared memory");
  const LaunchPlace place{
      .stream = site.stream, .capability = site.capability, .shared_bytes = bytes};
  launch_early(place, static_cast<unsigned>(blocks), block_threads, kernel, arguments...);
  check_launch("thin convolution");
}

/// Blocks with `bytes` of shared memory that the GPU holds at once, at most
/// blocks_per_multiprocessor on each.
inline int resident_blocks(const ConvolutionSite& site, size_t bytes) {
  constexpr size_t reserved = 1024;  // by the system, for each block
  const auto fit = static_cast<int>(site.multiprocessor_bytes / (bytes + reserved));
  return site.multiprocessors * std::clamp(fit, 1, blocks_per_multiprocessor);
}

/// Outputs of `g` in tiles of about `places`, an even number of rows and columns by sixteens.
inline ThinPlaces thin_places(const Conv2dGeometry& g, int places, int most_columns = 128) {
  ThinPlaces p{.n = static_cast<int>(g.n),
               .h = static_cast<int>(g.h),
               .w = static_cast<int>(g.w),
               .h_out = static_cast<int>(g.h_out),
               .w_out = static_cast<int>(g.w_out),
               .c_out = static_cast<int>(g.c_out),
               .pad_top = static_cast<int>(g.pad_top),
               .pad_left = static_cast<int>(g.pad_left)};
  p.tile_columns = std::min({(p.w_out + 15) / 16 * 16, places / 2 / 16 * 16, most_columns});
  p.tile_rows = std::min((p.h_out + 1) / 2 * 2, places / p.tile_columns / 2 * 2);
  p.tiles_across = (p.w_out + p.tile_columns - 1) / p.tile_columns;
  p.tiles_down = (p.h_out + p.tile_rows - 1) / p.tile_rows;
  return p;
}

/// A tile of that size, of nothing.
constexpr ThinPlaces thin_tile(int rows, int columns) {
  ThinPlaces p{};
  p.tile_rows = rows;
  p.tile_columns = columns;
  return p;
}

}  // namespace whisker::cuda
