// Convolutions of pictures with one or three channels, which libraries are slow at: a step's first
// layer. Both passes are products on tensor cores whose picture operand is never gathered:
//
// Note [Thin convolutions]
// In NHWC the taps of one kernel row lie side by side: those of output column j start at element
// stride C j of the padded picture's row. So k runs over kernel rows and, within each, over
// kernel C elements, padded to whole units of 8; the pads meet zero weights. A block keeps the
// rows it needs, zero-padded, in shared memory (the patch), and reads operands from there at any
// offset. A NaN may thereby spread to neighbours that the definition would spare.
#pragma once

#include "core/cuda/mma.cuh"
#include "core/geometry.h"

#include <cstdint>

namespace whisker::cuda {

/// What the kernels are compiled for. Kernels are square, strides equal.
template <int Channels, int Kernel, int Stride>
struct ThinShape {
  static constexpr int channels = Channels, kernel = Kernel, stride = Stride;
  static constexpr int row_taps = kernel * channels;
  static constexpr int units = (row_taps + 7) / 8;  // of one kernel row
};

/// A thin convolution's extents in 32 bits, and how its output is cut into tiles of
/// (tile_rows, tile_columns) for blocks.
struct ThinPlaces {
  int n, h, w, h_out, w_out, c_out, pad_top, pad_left;
  int tile_rows = 0, tile_columns = 0;
  int tiles_down = 0, tiles_across = 0;
};

/// A tile's first output.
struct ThinTile {
  int picture, row, column;
};
__device__ inline ThinTile tile_of(const ThinPlaces& p, int tile) {
  const int across = tile % p.tiles_across;
  const int down = tile / p.tiles_across % p.tiles_down;
  return {.picture = tile / (p.tiles_across * p.tiles_down),
          .row = down * p.tile_rows,
          .column = across * p.tile_columns};
}

/// Rows of the patch and elements of each, even, with room for the last column's last unit.
template <class S>
__host__ __device__ constexpr int patch_rows(int tile_rows) {
  return (tile_rows - 1) * S::stride + S::kernel;
}
template <class S>
__host__ __device__ constexpr int patch_pitch(int tile_columns) {
  return ((tile_columns - 1) * S::stride * S::channels + 8 * S::units + 1) / 2 * 2;
}

/// Fills the patch of `tile` from x (N,H,W,C); `shifted`, when not null, gets the same one element
/// to the left, so that pairs at odd elements can be read as one word.
template <class S, class T>
__device__ void fill_patch(const ThinPlaces& p, const ThinTile& tile, const T* x, T* patch,
                           T* shifted) {
  const int rows = patch_rows<S>(p.tile_rows);
  const int pitch = patch_pitch<S>(p.tile_columns);
  const int first_row = tile.row * S::stride - p.pad_top;
  const int first_element = (tile.column * S::stride - p.pad_left) * S::channels;
  const int row_elements = p.w * S::channels;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int r = static_cast<int>(threadIdx.x) / 32; r < rows; r += warps) {
    const int row = first_row + r;
    const bool inside = row >= 0 && row < p.h;
    const T* from = x + (static_cast<int64_t>(tile.picture) * p.h + row) * row_elements;
    for (int e = lane; e < pitch; e += 32) {
      const int at = first_element + e;
      const bool there = inside && at >= 0 && at < row_elements;
      const T value = operand(there ? from[at] : from_f32<T>(0.0f));
      patch[r * pitch + e] = value;
      if (shifted && e > 0) shifted[r * pitch + e - 1] = value;
    }
  }
}

}  // namespace whisker::cuda
