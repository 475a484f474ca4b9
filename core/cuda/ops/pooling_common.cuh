// What every pooling kernel needs: the geometry, the loop over positions, the maximum of a window.
#pragma once

#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/device_code/types.cuh"

#include <cstdint>

namespace whisker::cuda {

/// The geometry in 32 bits, and what every thread needs of it.
struct PoolShape {
  int h, w, h_out, w_out, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
  int counted_top, counted_bottom, counted_left, counted_right;
  int packs;  // of channels
  int64_t n;

  __device__ int64_t x_at(int64_t image, int row, int column, int pack) const {
    return ((image * h + row) * w + column) * packs + pack;
  }
  __device__ int64_t y_at(int64_t image, int i, int j, int pack) const {
    return ((image * h_out + i) * w_out + j) * packs + pack;
  }
  /// What the average over window (i, j) divides by: Pool2dGeometry::divisor.
  __device__ float divisor(int i, int j) const {
    const int top = i * stride_h - pad_top;
    const int left = j * stride_w - pad_left;
    const int rows = min(top + kernel_h, h + counted_bottom) - max(top, -counted_top);
    const int columns = min(left + kernel_w, w + counted_right) - max(left, -counted_left);
    return static_cast<float>(max(rows, 0) * max(columns, 0));
  }
};

/// Calls fn(image, row, column, pack) for this thread's positions in a (rows, columns) plane, after
/// wait_for_previous().
template <class Fn>
__device__ void for_each_position(const PoolShape& p, int rows, int columns, Fn&& fn) {
  wait_for_previous();
  const int across = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (across >= columns * p.packs) return;
  const int column = across / p.packs;
  const int pack = across - column * p.packs;
  for (int64_t image = blockIdx.z; image < p.n; image += gridDim.z) {
    for (int row = static_cast<int>(blockIdx.y); row < rows; row += static_cast<int>(gridDim.y)) {
      fn(image, row, column, pack);
    }
  }
}

/// The largest element so far of each channel of a window, and its index.
template <int N, class Index>
struct RunningMax {
  float best[N];
  Pack<Index, N> index;
  bool first = true;

  __device__ RunningMax() {
#pragma unroll
    for (int c = 0; c < N; ++c) {
      best[c] = -INFINITY;
      index.at[c] = static_cast<Index>(-1);
    }
  }
  template <class T>
  __device__ void take(const Pack<T, N>& value, int here) {
#pragma unroll
    for (int c = 0; c < N; ++c) {
      const float v = to_f32(value.at[c]);
      // NaN is larger than everything but an earlier NaN.
      if (first || (!(v <= best[c]) && best[c] == best[c])) {
        best[c] = v;
        index.at[c] = static_cast<Index>(here);
      }
    }
    first = false;
  }
  template <class T>
  __device__ void store(int64_t at, Pack<T, N>* y, Pack<Index, N>* argmax) const {
    Pack<T, N> result;
#pragma unroll
    for (int c = 0; c < N; ++c) result.at[c] = from_f32<T>(best[c]);
    y[at] = result;
    if (argmax) argmax[at] = index;
  }
};

template <class T, int N>
__device__ Pack<T, N> rounded(const float* values) {
  Pack<T, N> result;
#pragma unroll
  for (int c = 0; c < N; ++c) result.at[c] = from_f32<T>(values[c]);
  return result;
}

}  // namespace whisker::cuda
