// Pooling over planes of channels, plain or blocked. The innermost loops run over channels, sixteen
// at a time in registers: `width` is a constant where all sixteen are there. Max-pooling stores the
// argmax of each window, an index row by row within the window: one byte per element of y, four for
// windows over 255 elements; a window outside the image has the largest index. T is float or
// bf16_t; gradients are summed in f32.
#include "core/backend/pooling.h"

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/layout/blocked_layout.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/rows.h"
#include "core/vectorize.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace whisker::cpu {
namespace {

constexpr int64_t pool_lanes = 16;

/// A window along one axis: from `first` on; inside the image [begin, end).
struct Span {
  Span(int64_t i, int64_t stride, int64_t padding, int64_t kernel, int64_t extent)
      : index(i),
        first(i * stride - padding),
        begin(std::max<int64_t>(first, 0)),
        end(std::max(std::min(first + kernel, extent), begin)) {}
  int64_t index, first, begin, end;
};

/// The rows of the windows of one row of one plane.
struct WindowRow : Span {
  WindowRow(const Pool2dGeometry& geometry, int64_t i)
      : Span(i, geometry.stride_h, geometry.pad_top, geometry.kernel_h, geometry.h), g(geometry) {}
  float divisor(const Span& columns) const {
    return static_cast<float>(g.divisor(index, columns.index));
  }
  const Pool2dGeometry& g;
};

/// Calls fn(columns, position in the row of y, channel, width) for `width` channels of every window
/// of a row, sixteen at a time.
template <class Fn>
inline __attribute__((always_inline)) void for_each_window(const Pool2dGeometry& g, int64_t inner,
                                                           Fn&& fn) {
  for (int64_t j = 0; j < g.w_out; ++j) {
    const Span columns(j, g.stride_w, g.pad_left, g.kernel_w, g.w);
    int64_t channel = 0;
    for (; channel + pool_lanes <= inner; channel += pool_lanes)
      fn(columns, j * inner + channel, channel, pool_lanes);
    if (channel < inner) fn(columns, j * inner + channel, channel, inner - channel);
  }
}

/// Calls fn(position in the plane, index within the window) for the window's pixels in the image.
template <class Fn>
inline __attribute__((always_inline)) void for_each_pixel(const WindowRow& r, const Span& c,
                                                          int64_t inner, Fn&& fn) {
  for (int64_t row = r.begin; row < r.end; ++row) {
    for (int64_t column = c.begin; column < c.end; ++column) {
      fn((row * r.g.w + column) * inner,
         static_cast<int32_t>((row - r.first) * r.g.kernel_w + column - c.first));
    }
  }
}

// Ties go to the first element; NaN is larger than everything.
template <class T, class Index>
WHISKER_VECTORIZE void max_row(const WindowRow& r, int64_t inner, const T* x, T* y, Index* argmax) {
  for_each_window(
      r.g, inner,
      [&](const Span& c, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            float best[pool_lanes];
            int32_t index[pool_lanes];
            for (int64_t i = 0; i < width; ++i) {
              best[i] = -std::numeric_limits<float>::infinity();
              index[i] = -1;
            }
            bool start = true;
            for_each_pixel(
                r, c, inner, [&](int64_t pixel, int32_t here) __attribute__((always_inline)) {
                  const T* from = x + pixel + channel;
#pragma omp simd
                  for (int64_t i = 0; i < width; ++i) {
                    const float v = load(from[i]);
                    const bool better = start | (!(v <= best[i]) & (best[i] == best[i]));
                    best[i] = better ? v : best[i];
                    index[i] = better ? here : index[i];
                  }
                  start = false;
                });
            for (int64_t i = 0; i < width; ++i) {
              store(y[at + i], best[i]);
              argmax[at + i] = static_cast<Index>(index[i]);
            }
          });
}

template <class T, class Index>
WHISKER_VECTORIZE void max_row_back(const WindowRow& r, int64_t inner, const Index* argmax,
                                    const T* dy, float* dx) {
  for_each_window(
      r.g, inner,
      [&](const Span& c, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            float gradient[pool_lanes];
            int32_t index[pool_lanes];
            for (int64_t i = 0; i < width; ++i) {
              gradient[i] = load(dy[at + i]);
              index[i] = static_cast<int32_t>(argmax[at + i]);
            }
            for_each_pixel(
                r, c, inner, [&](int64_t pixel, int32_t here) __attribute__((always_inline)) {
                  float* to = dx + pixel + channel;
#pragma omp simd
                  for (int64_t i = 0; i < width; ++i)
                    to[i] += index[i] == here ? gradient[i] : 0.0f;
                });
          });
}

template <class T>
WHISKER_VECTORIZE void average_row(const WindowRow& r, int64_t inner, const T* x, T* y) {
  constexpr int64_t stretch = 64;  // elements added in f32
  for_each_window(
      r.g, inner,
      [&](const Span& c, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            const bool is_large = (r.end - r.begin) * (c.end - c.begin) > stretch;
            float sum[pool_lanes] = {};
            double total[pool_lanes] = {};
            for (int64_t row = r.begin; row < r.end; ++row) {
              for (int64_t first = c.begin; first < c.end; first += stretch) {
                const int64_t end = std::min(first + stretch, c.end);
                for (int64_t column = first; column < end; ++column) {
                  const T* v = x + (row * r.g.w + column) * inner + channel;
#pragma omp simd
                  for (int64_t i = 0; i < width; ++i) sum[i] += load(v[i]);
                }
                if (!is_large) continue;
                for (int64_t i = 0; i < width; ++i) {
                  total[i] += static_cast<double>(sum[i]);
                  sum[i] = 0;
                }
              }
            }
            const float divisor = r.divisor(c);
            const float scale = divisor > 0 ? 1.0f / divisor : 0.0f;
            for (int64_t i = 0; i < width; ++i) {
              store(y[at + i], (is_large ? static_cast<float>(total[i]) : sum[i]) * scale);
            }
          });
}

template <class T>
WHISKER_VECTORIZE void average_row_back(const WindowRow& r, int64_t inner, const T* dy, float* dx) {
  for_each_window(
      r.g, inner,
      [&](const Span& c, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            const float scale = 1.0f / r.divisor(c);
            float scaled[pool_lanes];
            for (int64_t i = 0; i < width; ++i) scaled[i] = load(dy[at + i]) * scale;
            for_each_pixel(
                r, c, inner, [&](int64_t pixel, int32_t) __attribute__((always_inline)) {
                  float* to = dx + pixel + channel;
#pragma omp simd
                  for (int64_t i = 0; i < width; ++i) to[i] += scaled[i];
                });
          });
}

/// Calls fn(row of windows, plane, position of the row in y) over all planes, in parallel.
template <class Fn>
void for_each_row(const Pool2dGeometry& g, const ImageLayout& a, Fn&& fn) {
  const int64_t work = g.h * g.w * a.inner();
  parallel_each(a.outer(), rows_grain(work), [&](int64_t plane, int) {
    for (int64_t i = 0; i < g.h_out; ++i) {
      fn(WindowRow(g, i), plane, (plane * g.h_out + i) * g.w_out * a.inner());
    }
  });
}

// Windows add to the plane's zeroed gradient, in f32; one thread has all windows of a plane.
template <class T, class Fn>
void backward_planes(Allocator& allocator, const Pool2dGeometry& g, const ImageLayout& a, T* dx,
                     Fn&& fn) {
  constexpr bool in_place = std::is_same_v<T, float>;
  const int64_t size = g.h * g.w * a.inner();
  const int team = team_size(a.outer(), rows_grain(size));
  const Scratch<float> wide(allocator, in_place ? 0 : team * size);
  parallel_each(a.outer(), rows_grain(size), [&](int64_t plane, int thread) {
    float* sums = wide.data() + thread * size;
    if constexpr (in_place) sums = dx + plane * size;
    std::fill_n(sums, size, 0.0f);
    for (int64_t i = 0; i < g.h_out; ++i) {
      fn(WindowRow(g, i), (plane * g.h_out + i) * g.w_out * a.inner(), sums);
    }
    if constexpr (!in_place) round_row(sums, dx + plane * size, size);
  });
}

int64_t argmax_bytes(const Pool2dGeometry& g) {
  return g.kernel_h * g.kernel_w <= 255 ? 1 : 4;
}
/// Calls fn.template operator()<Index>() with the type of an argmax index.
template <class Fn>
void visit_index(const Pool2dGeometry& g, Fn&& fn) {
  argmax_bytes(g) == 1 ? fn.template operator()<uint8_t>() : fn.template operator()<uint32_t>();
}

template <class T>
void pool_forward(const Pool2dGeometry& g, const ImageLayout& a, const T* x, T* y, void* argmax) {
  const int64_t size = g.h * g.w * a.inner();
  if (g.kind == PoolKind::average) {
    return for_each_row(g, a, [&](const WindowRow& r, int64_t plane, int64_t at) {
      average_row(r, a.inner(), x + plane * size, y + at);
    });
  }
  visit_index(g, [&]<class Index>() {
    for_each_row(g, a, [&](const WindowRow& r, int64_t plane, int64_t at) {
      max_row(r, a.inner(), x + plane * size, y + at, static_cast<Index*>(argmax) + at);
    });
  });
}

template <class T>
void pool_backward(Allocator& allocator, const Pool2dGeometry& g, const ImageLayout& a,
                   const void* argmax, const T* dy, T* dx) {
  if (g.kind == PoolKind::average) {
    return backward_planes(allocator, g, a, dx, [&](const WindowRow& r, int64_t at, float* sums) {
      average_row_back(r, a.inner(), dy + at, sums);
    });
  }
  visit_index(g, [&]<class Index>() {
    backward_planes(allocator, g, a, dx, [&](const WindowRow& r, int64_t at, float* sums) {
      max_row_back(r, a.inner(), static_cast<const Index*>(argmax) + at, dy + at, sums);
    });
  });
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
        pool_forward(g, from, in.data<T>(), out.data<T>(), argmax);
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
    const ImageLayout from = layout_of(workspace.defined() ? workspace : dy,
                                       {.n = g.n, .positions = g.h_out * g.w_out, .channels = g.c});
    ImageLayout to = from;
    to.positions = g.h * g.w;
    const LayoutInput argmax(allocator_, workspace, from), gradient(allocator_, dy, from);
    LayoutOutput out(allocator_, dx, to);
    visit_element("pool2d", dy.dtype(), [&]<class T>() {
      pool_backward(allocator_, g, from, argmax.data<void>(), gradient.data<T>(), out.data<T>());
    });
    out.finish();
  }
};

}  // namespace

std::shared_ptr<PoolingKernels> make_pooling(CpuDevice& device) {
  return std::make_shared<Pooling>(device);
}

}  // namespace whisker::cpu
