// What the kernels of a batch norm with its activation and a pointwise convolution behind it share,
// y = f(norm(x)) w^T of 16-bit x (rows, C) and w (C_out, C), on tensor cores: the batch norm with
// its activation in registers, and tiles of rows. All of the kernels are bound by memory: none
// stores the wide a = f(norm(x)) or its gradient da = dy w. Blocks take tiles of rows in turn and
// copy the next one to shared memory while they compute. Kernels that run behind another pass over
// x begin with the last rows, which the L2 cache still holds.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/convolution/convolution.h"
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/async_copy.cuh"
#include "core/cuda/device_code/norm_formulas.cuh"
#include "core/cuda/device_code/packed.cuh"

#include <cmath>
#include <cstdint>

namespace whisker::cuda::pointwise {

inline constexpr int pack = 8;  // elements in 16 bytes

/// Elements from row to row in shared memory: an odd number of packs, so that eight rows lie in
/// different banks.
__host__ __device__ constexpr int pitch_of(int columns) {
  return (columns / pack | 1) * pack;
}

/// Tiles of `tile_rows` rows (a multiple of 16).
struct Tiles {
  int64_t rows = 0;
  int c = 0, c_out = 0;
  int tile_rows = 0;
  int64_t count = 0;  // of tiles
};

/// Factors of the batch norm for N channels.
template <int N>
struct Factors {
  float center[N], scale[N], shift[N];

  __device__ void set(int i, const ImageNorm& norm, int channel) {
    center[i] = norm.mean[channel];
    scale[i] = norm.inv_std[channel] * norm.gamma[channel];
    shift[i] = norm.beta[channel];
  }
  __device__ float z(int i, float x) const { return normalised(x, center[i], scale[i], shift[i]); }
};

template <class T>
__device__ uint32_t word_at(const T* x) {
  return *reinterpret_cast<const uint32_t*>(x);
}
// The activations, of two elements at a time: value() is a word of a = f(z), gradient() one of
// f'(z) da.

/// none, relu and relu6: between a lowest and a highest value. Rounding comes first, so that packed
/// instructions clip: the result is the same.
template <class T>
struct Clip {
  uint32_t lowest, highest;
  __device__ uint32_t value(const float (&z)[2]) const {
    const auto above =
        __hmax2_nan(two_elements<T>(two_rounded<T>(z[0], z[1])), two_elements<T>(lowest));
    const auto clipped = __hmin2_nan(above, two_elements<T>(highest));
    return reinterpret_cast<const uint32_t&>(clipped);
  }
  __device__ uint32_t gradient(const float (&)[2], uint32_t a, uint32_t da) const {
    return da & __hgtu2_mask(two_elements<T>(a), two_elements<T>(lowest)) &
           __hltu2_mask(two_elements<T>(a), two_elements<T>(highest));
  }
};
template <class T, Activation F>
struct Smooth {
  __device__ uint32_t value(const float (&z)[2]) const {
    return two_rounded<T>(activate({F}, z[0]), activate({F}, z[1]));
  }
  __device__ uint32_t gradient(const float (&z)[2], uint32_t, uint32_t da) const {
    float of_a[2];
    to_floats<T>(da, of_a);
    return two_rounded<T>(activation_gradient({F}, z[0], of_a[0]),
                          activation_gradient({F}, z[1], of_a[1]));
  }
};
template <class T, class Fn>
__device__ void with_curve(ActivationSpec f, const Fn& fn) {
  if (f.kind == Activation::hard_swish) return fn(Smooth<T, Activation::hard_swish>{});
  if (f.kind == Activation::silu) return fn(Smooth<T, Activation::silu>{});
  const float lowest = f.kind == Activation::none ? -INFINITY : 0;
  const float highest = f.kind == Activation::relu6 ? 6 : INFINITY;
  fn(Clip<T>{two_rounded<T>(lowest, lowest), two_rounded<T>(highest, highest)});
}

/// A thread's part of the tiles of a matrix (rows, columns): one pack of columns, of every
/// `step_`th row. Rows beyond the last are zeros.
template <class T>
class TileCopy {
 public:
  __device__ TileCopy(const T* from, int columns, int pitch, const Tiles& t)
      : from_(from), rows_(t.rows), columns_(columns), pitch_(pitch), tile_rows_(t.tile_rows) {
    const int packs = columns / pack, thread = static_cast<int>(threadIdx.x);
    step_ = static_cast<int>(blockDim.x) / packs;
    first_ = thread / packs;
    column_ = thread % packs * pack;
    if (first_ == step_) first_ = tile_rows_;  // no whole row is left for the last threads
  }
  __device__ int column() const { return column_; }

  /// Starts to copy tile `at` to shared memory; zeros where there is no such tile.
  __device__ void start(int64_t at, T* tile) const {
    const int64_t row = at * tile_rows_ + first_;
    const T* from = from_ + row * columns_ + column_;
    T* to = tile + first_ * pitch_ + column_;
    const int64_t all_left = row < 0 ? 0 : rows_ - row;
    int left = static_cast<int>(min(max(all_left, int64_t{0}), int64_t{tile_rows_}));
    each([&](int) {
      start_copy(to, from, left > 0);
      from += step_ * columns_;
      to += step_ * pitch_;
      left -= step_;
    });
  }
  /// fn(row of a tile) for the rows that this thread copies.
  template <class Fn>
  __device__ void each(const Fn& fn) const {
#pragma unroll 2
    for (int row = first_; row < tile_rows_; row += step_) fn(row);
  }

 private:
  const T* from_;
  int64_t rows_;
  int columns_, pitch_, tile_rows_, step_, first_, column_;
};

/// fn(first element, word) for the words of a pack.
template <class Fn>
__device__ void for_words(uint4& words, const Fn& fn) {
  fn(0, words.x);
  fn(2, words.y);
  fn(4, words.z);
  fn(6, words.w);
}

}  // namespace whisker::cuda::pointwise
