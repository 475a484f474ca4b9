// How pooling's kernels are launched: the geometry as they take it, blocks over planes of places,
// and the choice of packs.
#pragma once

#include "core/cuda/device/launch.h"
#include "core/cuda/operators/pool2d.h"
#include "core/cuda/operators/pool2d_places.cuh"

#include <algorithm>

namespace whisker::cuda {

inline Places places_of(const Pool2dGeometry& g, int pack) {
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

/// Blocks for planes of (rows, columns) places: see for_each_place.
struct PlaneLaunch {
  dim3 grid, block;
};
inline PlaneLaunch plane_launch(const Places& p, int rows, int columns) {
  const int64_t across = int64_t{columns} * p.packs;
  const int64_t blocks = (across + block_threads - 1) / block_threads;
  const int64_t warps = (across + blocks * 32 - 1) / (blocks * 32);  // of a block
  return {.grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(std::min(rows, 65535)),
                       static_cast<unsigned>(std::min<int64_t>(p.n, 65535))),
          .block = dim3(static_cast<unsigned>(warps * 32))};
}

/// Planes of which each thread takes `strip` rows below each other: at most 8, and so few that the
/// GPU is full of threads.
struct StripLaunch {
  int strip;
  PlaneLaunch blocks;
};
inline StripLaunch strip_launch(const Context& context, const Places& p, int rows, int columns) {
  const int64_t places = p.n * rows * columns * p.packs;
  const int64_t threads = int64_t{context.multiprocessors()} * 2048;
  const auto strip = static_cast<int>(std::clamp<int64_t>(places / threads, 1, 8));
  return {.strip = strip, .blocks = plane_launch(p, (rows + strip - 1) / strip, columns)};
}

inline bool aligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

/// Calls fn.operator()<T, N>(places): 16-byte packs where channels and pointers allow.
template <class Fn, class... P>
void visit_packed(const Pool2dGeometry& g, const Fn& fn, const void* marks, const P*... pictures) {
  visit_real(g.dtype, [&]<class T>() {
    constexpr int wide = pack_size<T>;
    const bool packs = g.c % wide == 0 && (aligned(pictures, 16) && ...) &&
                       aligned(marks, static_cast<size_t>(wide * pool2d_mark_bytes(g)));
    if (packs) {
      fn.template operator()<T, wide>(places_of(g, wide));
    } else {
      fn.template operator()<T, 1>(places_of(g, 1));
    }
  });
}

}  // namespace whisker::cuda
