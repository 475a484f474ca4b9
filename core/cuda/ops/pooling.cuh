// The base of all pooling kernels: the geometry in 32 bits, blocks over planes of positions, the
// loop over them, the maximum of a window, and the choice of packs.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/device_code/launch.h"
#include "core/cuda/device_code/pdl.cuh"

#include <algorithm>
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
  /// The divisor of the average over window (i, j): Pool2dGeometry::divisor.
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

inline PoolShape pool_shape(const Pool2dGeometry& g, int pack) {
  return {.h = static_cast<int>(g.h),
          .w = static_cast<int>(g.w),
          .h_out = static_cast<int>(g.h_out),
          .w_out = static_cast<int>(g.w_out),
          .kernel_h = static_cast<int>(g.kernel_h),
          .kernel_w = static_cast<int>(g.kernel_w),
          .stride_h = static_cast<int>(g.stride_h),
          .stride_w = static_cast<int>(g.stride_w),
          .pad_top = static_cast<int>(g.pad_top),
          .pad_left = static_cast<int>(g.pad_left),
          .counted_top = static_cast<int>(g.counted_top),
          .counted_bottom = static_cast<int>(g.counted_bottom),
          .counted_left = static_cast<int>(g.counted_left),
          .counted_right = static_cast<int>(g.counted_right),
          .packs = static_cast<int>(g.c / pack),
          .n = g.n};
}

/// Blocks for planes of (rows, columns) positions: see for_each_position.
inline Blocks plane_blocks(const PoolShape& p, int rows, int columns) {
  const int64_t across = int64_t{columns} * p.packs;
  const int64_t blocks = (across + block_threads - 1) / block_threads;
  const int64_t warps = (across + blocks * 32 - 1) / (blocks * 32);  // of a block
  return {dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(std::min(rows, 65535)),
               static_cast<unsigned>(std::min<int64_t>(p.n, 65535))),
          dim3(static_cast<unsigned>(warps * 32))};
}

/// Each thread computes `strip` consecutive rows: at most 8, fewer where the GPU would have idle
/// threads.
struct StripLaunch {
  int strip;
  Blocks blocks;
};
inline StripLaunch strip_launch(const Context& context, const PoolShape& p, int rows, int columns) {
  const int64_t positions = p.n * rows * columns * p.packs;
  const int64_t threads = int64_t{context.multiprocessors()} * 2048;
  const auto strip = static_cast<int>(std::clamp<int64_t>(positions / threads, 1, 8));
  return {.strip = strip, .blocks = plane_blocks(p, (rows + strip - 1) / strip, columns)};
}

/// Bytes of one argmax index.
inline int64_t pool2d_argmax_bytes(const Pool2dGeometry& g) {
  return g.kernel_h * g.kernel_w <= 255 ? 1 : 4;
}

/// Calls fn.operator()<T, N>(shape): 16-byte packs where channels and pointers allow.
template <class Fn, class... P>
void visit_packed(const Pool2dGeometry& g, const Fn& fn, const void* argmax, const P*... images) {
  const auto argmax_pack = 16 / size_of(g.dtype) * static_cast<size_t>(pool2d_argmax_bytes(g));
  const bool packs = reinterpret_cast<uintptr_t>(argmax) % argmax_pack == 0;
  const auto run = [&]<class T, int N>() { fn.template operator()<T, N>(pool_shape(g, N)); };
  with_packs(g.dtype, packs ? g.c : 1, run, images...);
}

}  // namespace whisker::cuda
