// Fills a block's patch, the rows of the image that its tile needs: see Note [Few-channel
// convolutions].
#pragma once

#include "core/cuda/convolution/few_channels/few_channels_conv.cuh"
#include "core/cuda/device_code/async_copy.cuh"
#include "core/cuda/device_code/mma.cuh"

#include <cstdint>

namespace whisker::cuda {

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
    const T value = operand(element);
    patch[item] = value;
    if (shifted && item > 0) shifted[item - 1] = value;
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
