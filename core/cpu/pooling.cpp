// Pooling over planes of channels, plain or blocked: runs pool2d_windows.h over all rows of
// windows. An argmax index is one byte per element of y, four for windows over 255 elements.
#include "core/backend/pooling.h"

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/kernels/pool2d_windows.h"
#include "core/cpu/layout/blocked_layout.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/rows.h"

#include <algorithm>
#include <type_traits>

namespace whisker::cpu {
namespace {

/// Calls fn(row of windows, plane, position of the row in y) over all planes, in parallel.
template <class Fn>
void for_each_row(const Pool2dGeometry& g, const Planes& p, Fn&& fn) {
  const int64_t work = g.h * g.w * p.inner;
  parallel_ranges(p.outer(), rows_grain(work), [&](int64_t begin, int64_t end, int) {
    for (int64_t plane = begin; plane < end; ++plane) {
      for (int64_t i = 0; i < g.h_out; ++i) {
        fn(WindowRow(g, i), plane, (plane * g.h_out + i) * g.w_out * p.inner);
      }
    }
  });
}

template <class T, class Index>
void max_forward(const Pool2dGeometry& g, const Planes& p, const T* x, T* y, Index* argmax) {
  for_each_row(g, p, [&](const WindowRow& r, int64_t plane, int64_t at) {
    max_row(r, p.inner, x + plane * g.h * g.w * p.inner, y + at, argmax + at);
  });
}

// Windows add to the plane's zeroed gradient, in f32; one thread has all windows of a plane.
template <class T, class Fn>
void backward_planes(Allocator& allocator, const Pool2dGeometry& g, const Planes& p, T* dx,
                     Fn&& fn) {
  constexpr bool in_place = std::is_same_v<T, float>;
  const int64_t size = g.h * g.w * p.inner;
  const int team = team_size(p.outer(), rows_grain(size));
  const Scratch<float> wide(allocator, in_place ? 0 : team * size);
  parallel_ranges(p.outer(), rows_grain(size), [&](int64_t begin, int64_t end, int thread) {
    for (int64_t plane = begin; plane < end; ++plane) {
      float* sums = wide.data() + thread * size;
      if constexpr (in_place) sums = dx + plane * size;
      std::fill_n(sums, size, 0.0f);
      for (int64_t i = 0; i < g.h_out; ++i) {
        fn(WindowRow(g, i), (plane * g.h_out + i) * g.w_out * p.inner, sums);
      }
      if constexpr (!in_place) round_row(sums, dx + plane * size, size);
    }
  });
}

template <class T, class Index>
void max_backward(Allocator& allocator, const Pool2dGeometry& g, const Planes& p,
                  const Index* argmax, const T* dy, T* dx) {
  backward_planes(allocator, g, p, dx, [&](const WindowRow& r, int64_t at, float* sums) {
    max_row_back(r, p.inner, argmax + at, dy + at, sums);
  });
}

bool narrow_indices(const Pool2dGeometry& g) {
  return g.kernel_h * g.kernel_w <= 255;
}

int64_t argmax_bytes(const Pool2dGeometry& g) {
  return narrow_indices(g) ? 1 : 4;
}

template <class T>
void pool_forward(const Pool2dGeometry& g, const Planes& p, const T* x, T* y, void* argmax) {
  if (g.kind == PoolKind::average) {
    for_each_row(g, p, [&](const WindowRow& r, int64_t plane, int64_t at) {
      average_row(r, p.inner, x + plane * g.h * g.w * p.inner, y + at);
    });
  } else if (narrow_indices(g)) {
    max_forward(g, p, x, y, static_cast<uint8_t*>(argmax));
  } else {
    max_forward(g, p, x, y, static_cast<uint32_t*>(argmax));
  }
}

template <class T>
void pool_backward(Allocator& allocator, const Pool2dGeometry& g, const Planes& p,
                   const void* argmax, const T* dy, T* dx) {
  if (g.kind == PoolKind::average) {
    backward_planes(allocator, g, p, dx, [&](const WindowRow& r, int64_t at, float* sums) {
      average_row_back(r, p.inner, dy + at, sums);
    });
  } else if (narrow_indices(g)) {
    max_backward(allocator, g, p, static_cast<const uint8_t*>(argmax), dy, dx);
  } else {
    max_backward(allocator, g, p, static_cast<const uint32_t*>(argmax), dy, dx);
  }
}

class Pooling final : public PoolingKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  int64_t workspace_bytes(const Pool2dGeometry& g) override {
    if (g.kind == PoolKind::average) return 0;
    return g.n * g.h_out * g.w_out * g.c * argmax_bytes(g);
  }

  void pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
              const Tensor& workspace) override {
    const ImageLayout from = layout_of(x, {.n = g.n, .positions = g.h * g.w, .channels = g.c});
    ImageLayout to = from;
    to.positions = g.h_out * g.w_out;
    const LayoutInput in(allocator_, x, from);
    LayoutOutput out(allocator_, y, to);
    visit_element("pool2d", y.dtype(), [&]<class T>() {
      const auto run = [&](void* argmax) {
        pool_forward(g, from.planes(), in.data<T>(), out.data<T>(), argmax);
      };
      if (g.kind == PoolKind::average) return run(nullptr);
      if (!workspace.defined()) return run(scratch<char>(to.count() * argmax_bytes(g)).data());
      LayoutOutput argmax(allocator_, workspace, to, argmax_bytes(g));
      run(argmax.data<void>());
      argmax.finish();
    });
    out.finish();
  }

  void pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                       const Tensor& dx) override {
    // argmax has the layout of y; the average of windows takes the layout of dy.
    const bool marked = workspace.defined();
    const ImageLayout from = layout_of(marked ? workspace : dy,
                                       {.n = g.n, .positions = g.h_out * g.w_out, .channels = g.c});
    ImageLayout to = from;
    to.positions = g.h * g.w;
    const void* argmax = nullptr;
    if (marked) {
      argmax = blocked_form(workspace) ? blocked_form(workspace)->data() : workspace.raw();
    }
    const LayoutInput gradient(allocator_, dy, from);
    LayoutOutput out(allocator_, dx, to);
    visit_element("pool2d", dy.dtype(), [&]<class T>() {
      pool_backward(allocator_, g, from.planes(), argmax, gradient.data<T>(), out.data<T>());
    });
    out.finish();
  }
};

}  // namespace

std::shared_ptr<PoolingKernels> make_pooling(CpuDevice& device) {
  return std::make_shared<Pooling>(device);
}

}  // namespace whisker::cpu
