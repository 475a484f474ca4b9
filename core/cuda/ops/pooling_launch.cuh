// Launching pooling kernels: the geometry in 32 bits, blocks over planes of positions, and the
// choice of packs.
#pragma once

#include "core/cuda/device_code/launch.h"
#include "core/cuda/ops/pooling.h"
#include "core/cuda/ops/pooling_common.cuh"

#include <algorithm>

namespace whisker::cuda {

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
struct PlaneLaunch {
  dim3 grid, block;
};
inline PlaneLaunch plane_launch(const PoolShape& p, int rows, int columns) {
  const int64_t across = int64_t{columns} * p.packs;
  const int64_t blocks = (across + block_threads - 1) / block_threads;
  const int64_t warps = (across + blocks * 32 - 1) / (blocks * 32);  // of a block
  return {.grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(std::min(rows, 65535)),
                       static_cast<unsigned>(std::min<int64_t>(p.n, 65535))),
          .block = dim3(static_cast<unsigned>(warps * 32))};
}

/// Each thread computes `strip` consecutive rows: at most 8, fewer where the GPU would have idle
/// threads.
struct StripLaunch {
  int strip;
  PlaneLaunch blocks;
};
inline StripLaunch strip_launch(const Context& context, const PoolShape& p, int rows, int columns) {
  const int64_t positions = p.n * rows * columns * p.packs;
  const int64_t threads = int64_t{context.multiprocessors()} * 2048;
  const auto strip = static_cast<int>(std::clamp<int64_t>(positions / threads, 1, 8));
  return {.strip = strip, .blocks = plane_launch(p, (rows + strip - 1) / strip, columns)};
}

inline bool aligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

/// Calls fn.operator()<T, N>(shape): 16-byte packs where channels and pointers allow.
template <class Fn, class... P>
void visit_packed(const Pool2dGeometry& g, const Fn& fn, const void* argmax, const P*... images) {
  visit_real(g.dtype, [&]<class T>() {
    constexpr int wide = pack_size<T>;
    const bool packs = g.c % wide == 0 && (aligned(images, 16) && ...) &&
                       aligned(argmax, static_cast<size_t>(wide * pool2d_argmax_bytes(g)));
    if (packs) {
      fn.template operator()<T, wide>(pool_shape(g, wide));
    } else {
      fn.template operator()<T, 1>(pool_shape(g, 1));
    }
  });
}

}  // namespace whisker::cuda
