// Convolutions with few channels: first layers, where libraries are slow. Their passes are gemms on
// tensor cores that never gather the image operand:
//
// Note [Few-channel convolutions]
// In NHWC the taps of one kernel row are adjacent: those of output column j start at element
// stride C j of the padded image's row. So k runs over kernel rows and, within each, over kernel C
// elements, padded to whole units of 8 with zero weights. A block keeps the rows it needs, padded
// with zeros, in shared memory (the patch), and reads operands from there at any offset. A NaN may
// therefore spread to neighbours that the definition would not affect.
#pragma once

#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/device_code/launch.h"
#include "core/cuda/device_code/mma.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/device_code/types.cuh"
#include "core/cuda/runtime/check.h"

#include <algorithm>
#include <cstdint>

namespace whisker::cuda {

inline constexpr int block_warps = block_threads / 32;
inline constexpr int blocks_per_multiprocessor = 2;  // at most, of all few-channel kernels

/// A shape that kernels are compiled for: square kernel, equal strides.
template <int Channels, int Kernel, int Stride>
struct ConvShape {
  static constexpr int channels = Channels, kernel = Kernel, stride = Stride;
  static constexpr int row_taps = kernel * channels;
  static constexpr int units = (row_taps + 7) / 8;  // of one kernel row
};

/// A few-channel convolution's extents in 32 bits, and the tiles (tile_rows, tile_columns) of its
/// output that blocks compute.
struct ConvTiling {
  int n, h, w, h_out, w_out, c_out, pad_top, pad_left;
  int tile_rows = 0, tile_columns = 0;
  int tiles_down = 0, tiles_across = 0;
};

__host__ __device__ constexpr int tile_count(const ConvTiling& p) {
  return p.n * p.tiles_down * p.tiles_across;
}

/// A tile's first output.
struct ConvTile {
  int image, row, column;
};
__device__ inline ConvTile tile_of(const ConvTiling& p, int tile) {
  const int across = tile % p.tiles_across;
  const int down = tile / p.tiles_across % p.tiles_down;
  return {.image = tile / (p.tiles_across * p.tiles_down),
          .row = down * p.tile_rows,
          .column = across * p.tile_columns};
}

/// Rows of the patch and elements per row, even, including the last column's last unit.
template <class S>
__host__ __device__ constexpr int patch_rows(int tile_rows) {
  return (tile_rows - 1) * S::stride + S::kernel;
}
template <class S>
__host__ __device__ constexpr int patch_pitch(int tile_columns) {
  return ((tile_columns - 1) * S::stride * S::channels + 8 * S::units + 1) / 2 * 2;
}

/// Divides small numbers by one that is only known at run time: exact while number and quotient
/// times divisor stay below 2^20.
class SmallDivisor {
 public:
  __device__ explicit SmallDivisor(int divisor) : inverse_(1.0f / static_cast<float>(divisor)) {}
  __device__ int quotient(int number) const {
    return static_cast<int>((static_cast<float>(number) + 0.5f) * inverse_);
  }

 private:
  float inverse_;
};

/// Calls use(item, load(item)) for items 0 to count - 1, split over the block's threads: each
/// starts `Together` loads before it uses the first. load() is also called with items from count
/// on.
template <int Together, class Load, class Use>
__device__ void for_each_item(int count, const Load& load, const Use& use) {
  for (int first = static_cast<int>(threadIdx.x); first < count;
       first += Together * block_threads) {
    decltype(load(0)) loaded[Together];
#pragma unroll
    for (int k = 0; k < Together; ++k) loaded[k] = load(first + k * block_threads);
#pragma unroll
    for (int k = 0; k < Together; ++k) {
      const int item = first + k * block_threads;
      if (item < count) use(item, loaded[k]);
    }
  }
}

/// Fills the patch of `tile` from x (N,H,W,C); `shifted`, when not null, gets a copy one
/// element to the left, so that pairs at odd elements can be read as one word.
template <class S, class T>
__device__ void fill_patch(const ConvTiling& p, const ConvTile& tile, const T* x, T* patch,
                           T* shifted) {
  const int pitch = patch_pitch<S>(p.tile_columns), row_elements = p.w * S::channels;
  const int first_row = tile.row * S::stride - p.pad_top;
  const int first = (tile.column * S::stride - p.pad_left) * S::channels;
  const SmallDivisor by_pitch(pitch);
  const auto load = [&](int item) {
    const int patch_row = by_pitch.quotient(item), row = first_row + patch_row;
    const int at = first + item - patch_row * pitch;
    if (row < 0 || row >= p.h || at < 0 || at >= row_elements) return from_f32<T>(0.0f);
    return x[(int64_t{tile.image} * p.h + row) * row_elements + at];
  };
  for_each_item<8>(patch_rows<S>(p.tile_rows) * pitch, load, [&](int item, T element) {
    const T value = mma_operand(element);
    patch[item] = value;
    if (shifted && item > 0) shifted[item - 1] = value;
  });
}

// The host's side: the compiled shapes, and the tiles of the output.

template <class... Shapes>
struct ConvShapes {};
inline constexpr ConvShapes<ConvShape<1, 3, 1>, ConvShape<3, 3, 1>, ConvShape<3, 3, 2>,
                            ConvShape<3, 7, 2>>
    few_channels_shapes{};

/// Calls fn.operator()<element type, ConvShape, filters, pooled>() for `request` where it has one
/// of the shapes; false where it has none. Filters are 32 or 64, without pooling also any other
/// multiple of 8 below, which is rounded up. Large kernels exist for 16-bit types only, pooling for
/// a stride of 1.
template <class Fn>
bool visit_few_channels(const ConvolutionRequest& request, const Fn& fn) {
  const Conv2dGeometry& g = request.geometry;
  const auto visited = [&]<class T, class S, int Filters>() {
    const bool rounded = g.c_out < Filters && g.c_out % 8 == 0 && !request.pooled;
    if (g.c != S::channels || g.kernel_h != S::kernel || g.kernel_w != S::kernel ||
        g.stride_h != S::stride || g.stride_w != S::stride || (g.c_out != Filters && !rounded)) {
      return false;
    }
    if constexpr (S::kernel <= 3 || sizeof(T) == 2) {
      if (!request.pooled) return fn.template operator()<T, S, Filters, false>(), true;
      if constexpr (S::stride == 1) return fn.template operator()<T, S, Filters, true>(), true;
    }
    return false;
  };
  const auto visit = [&]<class T, class... Shapes>(ConvShapes<Shapes...>) {
    return ((visited.template operator()<T, Shapes, 32>() ||
             visited.template operator()<T, Shapes, 64>()) ||
            ...);
  };
  bool found = false;
  visit_real(g.dtype,
             [&]<class T>() { found = visit.template operator()<T>(few_channels_shapes); });
  return found;
}

/// Launches `kernel` with `bytes` of shared memory, also beyond the 48 KiB default.
template <class... Parameters, class... Arguments>
void launch_few_channels(const KernelSite& site, size_t bytes, int blocks,
                         void (*kernel)(Parameters...), const Arguments&... arguments) {
  allow_shared_memory(kernel, bytes);
  launch_pdl(site, {static_cast<unsigned>(blocks), block_threads, bytes}, kernel, arguments...);
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

}  // namespace whisker::cuda
