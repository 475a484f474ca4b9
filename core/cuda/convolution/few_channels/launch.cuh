// The host's side of few-channel convolutions: the compiled shapes, and the tiles of the output.
#pragma once

#include "core/cuda/convolution/few_channels/few_channels_conv.cuh"
#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/device_code/shared_memory.h"
#include "core/cuda/device_code/types.cuh"
#include "core/cuda/runtime/check.h"

#include <algorithm>

namespace whisker::cuda {

template <class... Shapes>
struct ConvShapes {};
inline constexpr ConvShapes<ConvShape<1, 3, 1>, ConvShape<3, 3, 1>, ConvShape<3, 3, 2>,
                            ConvShape<3, 7, 2>>
    few_channels_shapes{};

/// Calls fn.operator()<element type, ConvShape, filters, pooled>() for `request`, which must have
/// one of the shapes; filters are its c_out rounded up to 32 or 64. Large kernels exist for 16-bit
/// types only.
template <class Fn>
void visit_few_channels(const ConvolutionRequest& request, const Fn& fn) {
  const Conv2dGeometry& g = request.geometry;
  const auto visited = [&]<class T, class S, int Filters>() {
    if constexpr (S::kernel <= 3 || sizeof(T) == 2) {
      if (g.c != S::channels || g.kernel_h != S::kernel || g.stride_h != S::stride) return false;
      if (g.c_out > Filters) return false;
      if constexpr (S::stride == 1) {
        if (request.pooled) return fn.template operator()<T, S, Filters, true>(), true;
      }
      return fn.template operator()<T, S, Filters, false>(), true;
    } else {
      return false;
    }
  };
  const auto visit = [&]<class T, class... Shapes>(ConvShapes<Shapes...>) {
    return ((visited.template operator()<T, Shapes, 32>() ||
             visited.template operator()<T, Shapes, 64>()) ||
            ...);
  };
  visit_real(g.dtype, [&]<class T>() {
    if (!visit.template operator()<T>(few_channels_shapes)) fail_few_channels(request);
  });
}

/// Launches `kernel` with `bytes` of shared memory, also beyond the 48 KiB default.
template <class... Parameters, class... Arguments>
void launch_few_channels(const KernelSite& site, size_t bytes, int blocks,
                         void (*kernel)(Parameters...), const Arguments&... arguments) {
  allow_shared_memory(kernel, bytes);
  const LaunchTarget target{
      .stream = site.stream, .capability = site.capability, .shared_bytes = bytes};
  launch_pdl(target, static_cast<unsigned>(blocks), block_threads, kernel, arguments...);
  check_launch("few-channel convolution");
}

/// Resident blocks with `bytes` of shared memory, at most blocks_per_multiprocessor each.
inline int resident_blocks(const KernelSite& site, size_t bytes) {
  constexpr size_t reserved = 1024;  // by the system, for each block
  const auto fit = static_cast<int>(site.multiprocessor_bytes / (bytes + reserved));
  return site.multiprocessors * std::clamp(fit, 1, blocks_per_multiprocessor);
}

/// Tiles of about `positions` outputs: an even number of rows, columns in multiples of 16.
inline ConvTiling conv_tiling(const Conv2dGeometry& g, int positions) {
  constexpr int most_columns = 128;
  ConvTiling p{.n = static_cast<int>(g.n),
               .h = static_cast<int>(g.h),
               .w = static_cast<int>(g.w),
               .h_out = static_cast<int>(g.h_out),
               .w_out = static_cast<int>(g.w_out),
               .c_out = static_cast<int>(g.c_out),
               .pad_top = static_cast<int>(g.pad_top),
               .pad_left = static_cast<int>(g.pad_left)};
  p.tile_columns = std::min({(p.w_out + 15) / 16 * 16, positions / 2 / 16 * 16, most_columns});
  p.tile_rows = std::min((p.h_out + 1) / 2 * 2, positions / p.tile_columns / 2 * 2);
  p.tiles_across = (p.w_out + p.tile_columns - 1) / p.tile_columns;
  p.tiles_down = (p.h_out + p.tile_rows - 1) / p.tile_rows;
  return p;
}

/// Only the tile size; all else is 0.
constexpr ConvTiling one_tile(int rows, int columns) {
  ConvTiling p{};
  p.tile_rows = rows;
  p.tile_columns = columns;
  return p;
}

}  // namespace whisker::cuda
