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

#include "core/backend/geometry.h"
#include "core/cuda/device_code/launch.h"

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

/// The supported activations: none, relu and leaky_relu. With all others, unrolled over a lane's
/// elements, the code would not fit the instruction cache.
struct LeakyRelu {
  bool flat;    // 0 below 0: relu
  float slope;  // else the slope there

  __device__ float operator()(float x) const {
    return x < 0 ? (flat ? 0.0f : slope * x) : x;  // keeps NaN
  }
  /// f'(x) dy, of y = f(x).
  __device__ float gradient(float y, float dy) const {
    if (flat) return y <= 0 ? 0.0f : dy;
    return y > 0 ? dy : slope * dy;
  }
};
inline LeakyRelu leaky_relu_of(ActivationSpec f) {
  return {.flat = f.kind == Activation::relu,
          .slope = f.kind == Activation::leaky_relu ? f.slope : 1.0f};
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

}  // namespace whisker::cuda
