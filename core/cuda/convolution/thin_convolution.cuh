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

#include "core/cuda/device/mma.cuh"
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

/// The activations that thin kernels take: none, relu and leaky_relu, lines with a bend at 0. With
/// all the others in it, unrolled over a lane's elements, the code would not fit the instruction
/// cache.
struct Bend {
  bool flat;    // 0 below 0: relu
  float slope;  // else the slope there

  __device__ float operator()(float x) const {
    return x < 0 ? (flat ? 0.0f : slope * x) : x;  // this way round a NaN stays a NaN
  }
  /// f'(x) dy, of y = f(x).
  __device__ float gradient(float y, float dy) const {
    if (flat) return y <= 0 ? 0.0f : dy;
    return y > 0 ? dy : slope * dy;
  }
};
inline Bend bend_of(ActivationSpec f) {
  return {.flat = f.kind == Activation::relu,
          .slope = f.kind == Activation::leaky_relu ? f.slope : 1.0f};
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

/// What a patch is filled from: element e of patch row r is element `first_element` + e of picture
/// row `first_row` + r, and 0 outside the picture.
template <class T>
struct PatchSource {
  const T* picture;  // its first row
  int first_row, first_element, picture_rows, row_elements;

  /// Element `at` of picture row `row`, as a U, of which rows hold whole ones.
  template <class U>
  __device__ U load(int row, int at) const {
    if (row < 0 || row >= picture_rows || at < 0 || at >= row_elements) return U{};
    return *reinterpret_cast<const U*>(picture + int64_t{row} * row_elements + at);
  }
};

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

/// Calls use(patch row, column, load(patch row, column)) for the columns of all rows: a warp takes
/// 32 columns at a time, and has many loads under way before it uses the first.
template <class Load, class Use>
__device__ void for_each_in_patch(int rows, int columns, const Load& load, const Use& use) {
  constexpr int together = 5;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int across = (columns + 31) / 32;
  const SmallDivisor by_across(across);
  for (int first = warp; first < rows * across; first += warps * together) {
    decltype(load(0, 0)) loaded[together];
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int item = first + i * warps, row = by_across.quotient(item);
      if (item < rows * across) loaded[i] = load(row, (item - row * across) * 32 + lane);
    }
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int item = first + i * warps, row = by_across.quotient(item);
      const int column = (item - row * across) * 32 + lane;
      if (item < rows * across && column < columns) use(row, column, loaded[i]);
    }
  }
}

/// Fills the patch of `tile` from x (N,H,W,C); `shifted`, when not null, gets the same one element
/// to the left, so that pairs at odd elements can be read as one word.
template <class S, class T>
__device__ void fill_patch(const ThinPlaces& p, const ThinTile& tile, const T* x, T* patch,
                           T* shifted) {
  const int rows = patch_rows<S>(p.tile_rows);
  const int pitch = patch_pitch<S>(p.tile_columns);
  const PatchSource<T> source{.picture = x + int64_t{tile.picture} * p.h * p.w * S::channels,
                              .first_row = tile.row * S::stride - p.pad_top,
                              .first_element = (tile.column * S::stride - p.pad_left) * S::channels,
                              .picture_rows = p.h,
                              .row_elements = p.w * S::channels};
  if (sizeof(T) == 2 && source.row_elements % 2 == 0) {
    // Two elements at a time, from even ones on: words of the patch or, where it begins at an odd
    // element, of the shifted copy.
    const bool odd = source.first_element % 2 != 0;
    const int first = source.first_element - (odd ? 1 : 0);
    const auto load = [&](int row, int word) {
      return source.template load<uint32_t>(source.first_row + row, first + 2 * word);
    };
    for_each_in_patch(rows, (pitch + odd + 1) / 2, load, [&](int row, int word, uint32_t both) {
      auto* const to = reinterpret_cast<uint16_t*>(patch + row * pitch);
      auto* const left = shifted ? reinterpret_cast<uint16_t*>(shifted + row * pitch) : nullptr;
      const int e = 2 * word - (odd ? 1 : 0);  // of the word's first element
      const auto low = static_cast<uint16_t>(both), high = static_cast<uint16_t>(both >> 16);
      if (!odd) {
        *reinterpret_cast<uint32_t*>(to + e) = both;
        if (left && e > 0) left[e - 1] = low;
        if (left) left[e] = high;
      } else {
        if (left && e > 0) *reinterpret_cast<uint32_t*>(left + e - 1) = both;
        if (e > 0) to[e] = low;
        if (e + 1 < pitch) to[e + 1] = high;
      }
    });
    return;
  }
  const auto load = [&](int row, int e) {
    return source.template load<T>(source.first_row + row, source.first_element + e);
  };
  for_each_in_patch(rows, pitch, load, [&](int row, int e, T element) {
    const T value = operand(element);
    patch[row * pitch + e] = value;
    if (shifted && e > 0) shifted[row * pitch + e - 1] = value;
  });
}

}  // namespace whisker::cuda
