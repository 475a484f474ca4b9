// What every pooling kernel needs: the geometry, the walk over places, the winner of a window.
#pragma once

#include "core/cuda/device/early_launch.cuh"
#include "core/cuda/device/types.cuh"

#include <cstdint>

namespace whisker::cuda {

/// The geometry in 32 bits, and what every thread needs of it.
struct Places {
  int h, w, h_out, w_out, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
  int counted_top, counted_bottom, counted_left, counted_right;
  int packs;  // of channels
  int64_t n;

  __device__ int64_t x_at(int64_t picture, int row, int column, int pack) const {
    return ((picture * h + row) * w + column) * packs + pack;
  }
  __device__ int64_t y_at(int64_t picture, int i, int j, int pack) const {
    return ((picture * h_out + i) * w_out + j) * packs + pack;
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

/// Calls fn(picture, row, column, pack) for this thread's places of a (rows, columns) plane, once
/// the work before this kernel is done: see launch_early.
template <class Fn>
__device__ void for_each_place(const Places& p, int rows, int columns, Fn&& fn) {
  wait_for_previous();
  const int across = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (across >= columns * p.packs) return;
  const int column = across / p.packs;
  const int pack = across - column * p.packs;
  for (int64_t picture = blockIdx.z; picture < p.n; picture += gridDim.z) {
    for (int row = static_cast<int>(blockIdx.y); row < rows; row += static_cast<int>(gridDim.y)) {
      fn(picture, row, column, pack);
    }
  }
}

/// The largest so far of each channel of a window, and where it lies.
template <int N, class Mark>
struct Winners {
  float best[N];
  Pack<Mark, N> place;
  bool first = true;

  __device__ Winners() {
#pragma unroll
    for (int c = 0; c < N; ++c) {
      best[c] = -INFINITY;
      place.at[c] = static_cast<Mark>(-1);
    }
  }
  template <class T>
  __device__ void take(const Pack<T, N>& value, int here) {
#pragma unroll
    for (int c = 0; c < N; ++c) {
      const float v = to_f32(value.at[c]);
      // A NaN beats everything but an earlier NaN.
      if (first || (!(v <= best[c]) && best[c] == best[c])) {
        best[c] = v;
        place.at[c] = static_cast<Mark>(here);
      }
    }
    first = false;
  }
  template <class T>
  __device__ void store(int64_t at, Pack<T, N>* y, Pack<Mark, N>* marks) const {
    Pack<T, N> result;
#pragma unroll
    for (int c = 0; c < N; ++c) result.at[c] = from_f32<T>(best[c]);
    y[at] = result;
    if (marks) marks[at] = place;
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
