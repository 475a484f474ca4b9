// Fills a block's patch, the rows of the image that its tile needs: see Note [Few-channel
// convolutions].
#pragma once

#include "core/cuda/convolution/few_channels/few_channels_conv.cuh"
#include "core/cuda/device_code/async_copy.cuh"
#include "core/cuda/device_code/mma.cuh"

#include <cstdint>

namespace whisker::cuda {

/// The source of a patch: element e of patch row r is element `first_element` + e of image
/// row `first_row` + r, and 0 outside the image.
template <class T>
struct PatchSource {
  const T* image;  // its first row
  int first_row, first_element, image_rows, row_elements;

  /// Element `at` of image row `row`, as a U; rows are whole numbers of U.
  template <class U>
  __device__ U load(int row, int at) const {
    if (row < 0 || row >= image_rows || at < 0 || at >= row_elements) return U{};
    return *reinterpret_cast<const U*>(image + int64_t{row} * row_elements + at);
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

/// Calls use(patch row, column, load(patch row, column)) for the columns of all rows. A warp
/// processes 32 columns at a time and starts many loads before it uses the first.
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
  const int rows = patch_rows<S>(p.tile_rows);
  const int pitch = patch_pitch<S>(p.tile_columns);
  const PatchSource<T> source{.image = x + int64_t{tile.image} * p.h * p.w * S::channels,
                              .first_row = tile.row * S::stride - p.pad_top,
                              .first_element = (tile.column * S::stride - p.pad_left) * S::channels,
                              .image_rows = p.h,
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

/// Where each row of a patch is copied in packs from a multiple of 8 elements of x on: elements per
/// row.
template <class S>
__host__ __device__ constexpr int copied_pitch(int tile_columns) {
  return (patch_pitch<S>(tile_columns) + 14) / 8 * 8;
}
/// Starts copies of the patch of `tile`; returns where in a row it begins. For 16-bit types and
/// rows of x that are whole packs.
template <class S, class T>
__device__ int copy_patch(const ConvTiling& p, const ConvTile& tile, const T* x, T* patch) {
  const int packs = copied_pitch<S>(p.tile_columns) / 8;  // of a row
  const int count = patch_rows<S>(p.tile_rows) * packs;
  const int row_elements = p.w * S::channels;
  const int begin = (tile.column * S::stride - p.pad_left) * S::channels, skipped = begin & 7;
  const SmallDivisor by_packs(packs);
  for (int item = static_cast<int>(threadIdx.x); item < count; item += block_threads) {
    const int patch_row = by_packs.quotient(item);
    const int row = tile.row * S::stride - p.pad_top + patch_row;
    const int at = begin - skipped + (item - patch_row * packs) * 8;
    const bool inside = row >= 0 && row < p.h && at >= 0 && at < row_elements;
    const int64_t offset = (int64_t{tile.image} * p.h + row) * row_elements + at;
    start_copy(patch + item * 8, inside ? x + offset : x, inside);
  }
  return skipped;
}

}  // namespace whisker::cuda
