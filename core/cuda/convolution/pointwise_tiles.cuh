// What the kernels of the fused pointwise convolution share: the batch norm with its activation in
// registers, and tiles of rows that blocks copy to shared memory ahead.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/packed.cuh"

#include <cmath>
#include <cstdint>
#include <type_traits>

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

/// The batch norm, f32 (C) each.
struct Norm {
  const float *mean, *inv_std, *gamma, *beta;
  ActivationSpec activation;
};

/// Its factors for N channels.
template <int N>
struct Factors {
  float center[N], scale[N], shift[N];

  __device__ void set(int i, const Norm& norm, int channel) {
    center[i] = norm.mean[channel];
    scale[i] = norm.inv_std[channel] * norm.gamma[channel];
    shift[i] = norm.beta[channel];
  }
  __device__ float z(int i, float x) const { return fmaf(x - center[i], scale[i], shift[i]); }
};

template <class T>
__device__ uint32_t rounded(float first, float second) {
  TwoElements<T> two;
  two.x = from_f32<T>(first);
  two.y = from_f32<T>(second);
  return reinterpret_cast<const uint32_t&>(two);
}
template <class T>
__device__ uint32_t word_at(const T* x) {
  return *reinterpret_cast<const uint32_t*>(x);
}
/// Both elements of a word.
template <class T>
__device__ void split(uint32_t word, float (&to)[2]) {
  if constexpr (std::is_same_v<T, bfloat_t>) {  // one instruction each
    to[0] = __uint_as_float(word << 16);
    to[1] = __uint_as_float(word & 0xffff0000u);
  } else {
    to[0] = element<T>(word, 0);
    to[1] = element<T>(word, 1);
  }
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
        __hmax2_nan(two_elements<T>(rounded<T>(z[0], z[1])), two_elements<T>(lowest));
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
    return rounded<T>(activate({F}, z[0]), activate({F}, z[1]));
  }
  __device__ uint32_t gradient(const float (&z)[2], uint32_t, uint32_t da) const {
    float of_a[2];
    split<T>(da, of_a);
    return rounded<T>(activation_gradient({F}, z[0], of_a[0]),
                      activation_gradient({F}, z[1], of_a[1]));
  }
};
template <class T, class Fn>
__device__ void with_curve(ActivationSpec f, const Fn& fn) {
  if (f.kind == Activation::hard_swish) return fn(Smooth<T, Activation::hard_swish>{});
  if (f.kind == Activation::silu) return fn(Smooth<T, Activation::silu>{});
  const float lowest = f.kind == Activation::none ? -INFINITY : 0;
  const float highest = f.kind == Activation::relu6 ? 6 : INFINITY;
  fn(Clip<T>{rounded<T>(lowest, lowest), rounded<T>(highest, highest)});
}

/// 16 bytes on their way to shared memory; zeros where not `present`.
__device__ inline void copy_ahead(void* to, const void* from, bool present) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(present ? 16 : 0)
               : "memory");
#endif
}
/// Waits for what this thread copies.
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
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
      copy_ahead(to, from, left > 0);
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

template <class T>
__device__ void exchange(T*& a, T*& b) {
  T* const first = a;
  a = b;
  b = first;
}

}  // namespace whisker::cuda::pointwise
