// Pooling. Channels lie side by side, so every loop runs along them. Max-pooling leaves the
// winner's place within its window, one byte per element of y (four for windows over 255 places),
// for the gradient to go back to; the largest mark stands for a window without any picture element.
#include "core/cpu/pool2d.h"

#include "core/cpu/arrangement.h"
#include "core/cpu/backend_class.h"
#include "core/cpu/parallel.h"
#include "core/cpu/vectorize.h"

#include <algorithm>
#include <limits>

namespace whisker::cpu {
namespace {

constexpr int64_t lanes = 16;

/// One row of windows of one plane: what is the same for all of them.
struct WindowRow {
  WindowRow(const Pool2dGeometry& geometry, int64_t i) : g(geometry), index(i) {
    first_row = i * g.stride_h - g.pad_top;
    top = std::max<int64_t>(first_row, 0);
    bottom = std::max(std::min(first_row + g.kernel_h, g.h), top);
  }
  const Pool2dGeometry& g;
  int64_t index, first_row, top, bottom;
};

/// The columns of one window that lie inside the picture.
struct WindowColumns {
  WindowColumns(const Pool2dGeometry& g, int64_t j)
      : index(j),
        first(j * g.stride_w - g.pad_left),
        left(std::max<int64_t>(first, 0)),
        right(std::max(std::min(first + g.kernel_w, g.w), left)) {}
  int64_t index, first, left, right;
};

inline float divisor_of(const WindowRow& r, const WindowColumns& c) {
  return static_cast<float>(r.g.divisor(r.index, c.index));
}

// The loops over the channels of one window: `width` of them, a constant where the caller's is one.

// The first of equals wins, and a NaN wins over everything.
template <class Mark>
inline __attribute__((always_inline)) void max_window(const WindowRow& r, const WindowColumns& c,
                                                      int64_t inner, int64_t width, const float* x,
                                                      float* y, Mark* marks) {
  float best[lanes];
  int32_t place[lanes];
  for (int64_t i = 0; i < width; ++i) {
    best[i] = -std::numeric_limits<float>::infinity();
    place[i] = static_cast<Mark>(-1);
  }
  for (int64_t row = r.top; row < r.bottom; ++row) {
    for (int64_t column = c.left; column < c.right; ++column) {
      const float* v = x + (row * r.g.w + column) * inner;
      const auto here = static_cast<int32_t>((row - r.first_row) * r.g.kernel_w + column - c.first);
      const bool start = row == r.top && column == c.left;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        const bool better = start | (!(v[i] <= best[i]) & (best[i] == best[i]));
        best[i] = better ? v[i] : best[i];
        place[i] = better ? here : place[i];
      }
    }
  }
  for (int64_t i = 0; i < width; ++i) {
    y[i] = best[i];
    marks[i] = static_cast<Mark>(place[i]);
  }
}

template <class Mark>
inline __attribute__((always_inline)) void max_window_back(const WindowRow& r,
                                                           const WindowColumns& c, int64_t inner,
                                                           int64_t width, const Mark* marks,
                                                           const float* dy, float* dx) {
  float gradient[lanes];
  int32_t place[lanes];
  for (int64_t i = 0; i < width; ++i) {
    gradient[i] = dy[i];
    place[i] = static_cast<int32_t>(marks[i]);
  }
  for (int64_t row = r.top; row < r.bottom; ++row) {
    for (int64_t column = c.left; column < c.right; ++column) {
      float* to = dx + (row * r.g.w + column) * inner;
      const auto here = static_cast<int32_t>((row - r.first_row) * r.g.kernel_w + column - c.first);
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] += place[i] == here ? gradient[i] : 0.0f;
    }
  }
}

inline __attribute__((always_inline)) void average_window(const WindowRow& r,
                                                          const WindowColumns& c, int64_t inner,
                                                          int64_t width, const float* x, float* y) {
  float sum[lanes] = {};
  for (int64_t row = r.top; row < r.bottom; ++row) {
    for (int64_t column = c.left; column < c.right; ++column) {
      const float* v = x + (row * r.g.w + column) * inner;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) sum[i] += v[i];
    }
  }
  const float divisor = divisor_of(r, c);
  const float scale = divisor > 0 ? 1.0f / divisor : 0.0f;
  for (int64_t i = 0; i < width; ++i) y[i] = sum[i] * scale;
}

inline __attribute__((always_inline)) void average_window_back(const WindowRow& r,
                                                               const WindowColumns& c,
                                                               int64_t inner, int64_t width,
                                                               const float* dy, float* dx) {
  const float scale = 1.0f / divisor_of(r, c);
  float share[lanes];
  for (int64_t i = 0; i < width; ++i) share[i] = dy[i] * scale;
  for (int64_t row = r.top; row < r.bottom; ++row) {
    for (int64_t column = c.left; column < c.right; ++column) {
      float* to = dx + (row * r.g.w + column) * inner;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] += share[i];
    }
  }
}

/// Calls fn(columns, position in the row of y, first channel, width) for every window of a row,
/// sixteen channels at a time.
template <class Fn>
inline __attribute__((always_inline)) void for_each_window(const Pool2dGeometry& g, int64_t inner,
                                                           Fn&& fn) {
  for (int64_t j = 0; j < g.w_out; ++j) {
    const WindowColumns columns(g, j);
    int64_t channel = 0;
    for (; channel + lanes <= inner; channel += lanes) fn(columns, j * inner, channel, lanes);
    if (channel < inner) fn(columns, j * inner, channel, inner - channel);
  }
}

template <class Mark>
WHISKER_VECTORIZE void max_row(const WindowRow& r, int64_t inner, const float* x, float* y,
                               Mark* marks) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& columns, int64_t at, int64_t channel,
          int64_t width) __attribute__((always_inline)) {
        max_window(r, columns, inner, width, x + channel, y + at + channel, marks + at + channel);
      });
}

template <class Mark>
WHISKER_VECTORIZE void max_row_back(const WindowRow& r, int64_t inner, const Mark* marks,
                                    const float* dy, float* dx) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& columns, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            max_window_back(r, columns, inner, width, marks + at + channel, dy + at + channel,
                            dx + channel);
          });
}

WHISKER_VECTORIZE void average_row(const WindowRow& r, int64_t inner, const float* x, float* y) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& columns, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            average_window(r, columns, inner, width, x + channel, y + at + channel);
          });
}

WHISKER_VECTORIZE void average_row_back(const WindowRow& r, int64_t inner, const float* dy,
                                        float* dx) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& columns, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            average_window_back(r, columns, inner, width, dy + at + channel, dx + channel);
          });
}

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

template <class Mark>
void max_forward(const Pool2dGeometry& g, const Planes& p, const float* x, float* y, Mark* marks) {
  for_each_row(g, p, [&](const WindowRow& r, int64_t plane, int64_t at) {
    max_row(r, p.inner, x + plane * g.h * g.w * p.inner, y + at, marks + at);
  });
}

// Windows add to the plane's zeroed gradient; one thread has all windows of a plane.
template <class Fn>
void backward_rows(const Pool2dGeometry& g, const Planes& p, float* dx, Fn&& fn) {
  const int64_t plane_size = g.h * g.w * p.inner;
  for_each_row(g, p, [&](const WindowRow& r, int64_t plane, int64_t at) {
    float* to = dx + plane * plane_size;
    if (at == plane * g.h_out * g.w_out * p.inner) std::fill_n(to, plane_size, 0.0f);
    fn(r, at, to);
  });
}

template <class Mark>
void max_backward(const Pool2dGeometry& g, const Planes& p, const Mark* marks, const float* dy,
                  float* dx) {
  backward_rows(g, p, dx, [&](const WindowRow& r, int64_t at, float* to) {
    max_row_back(r, p.inner, marks + at, dy + at, to);
  });
}

bool narrow_marks(const Pool2dGeometry& g) {
  return g.kernel_h * g.kernel_w <= 255;
}

}  // namespace

int64_t mark_bytes(const Pool2dGeometry& g) {
  return narrow_marks(g) ? 1 : 4;
}

void pool2d_forward(const Pool2dGeometry& g, const Planes& p, const float* x, float* y,
                    void* marks) {
  if (g.kind == PoolKind::average) {
    for_each_row(g, p, [&](const WindowRow& r, int64_t plane, int64_t at) {
      average_row(r, p.inner, x + plane * g.h * g.w * p.inner, y + at);
    });
  } else if (narrow_marks(g)) {
    max_forward(g, p, x, y, static_cast<uint8_t*>(marks));
  } else {
    max_forward(g, p, x, y, static_cast<uint32_t*>(marks));
  }
}

void pool2d_backward(const Pool2dGeometry& g, const Planes& p, const void* marks, const float* dy,
                     float* dx) {
  if (g.kind == PoolKind::average) {
    backward_rows(g, p, dx, [&](const WindowRow& r, int64_t at, float* to) {
      average_row_back(r, p.inner, dy + at, to);
    });
  } else if (narrow_marks(g)) {
    max_backward(g, p, static_cast<const uint8_t*>(marks), dy, dx);
  } else {
    max_backward(g, p, static_cast<const uint32_t*>(marks), dy, dx);
  }
}

int64_t CpuBackend::pool2d_workspace_bytes(const Pool2dGeometry& g) {
  if (g.kind == PoolKind::average) return 0;
  return g.n * g.h_out * g.w_out * g.c * mark_bytes(g);
}

void CpuBackend::pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
                        const Tensor& workspace) {
  const Arrangement from = arrangement_of(x, {.n = g.n, .places = g.h * g.w, .channels = g.c});
  Arrangement to = from;
  to.places = g.h_out * g.w_out;
  const ArrangedInput in(allocator_, x, from);
  ArrangedOutput out(allocator_, y, to);
  if (g.kind == PoolKind::average) {
    pool2d_forward(g, from.planes(), in.data(), out.values(), nullptr);
  } else if (workspace.defined()) {
    ArrangedOutput marks(allocator_, workspace, to, mark_bytes(g));
    pool2d_forward(g, from.planes(), in.data(), out.values(), marks.data());
    marks.finish();
  } else {
    const Scratch<char> marks = scratch<char>(to.count() * mark_bytes(g));
    pool2d_forward(g, from.planes(), in.data(), out.values(), marks.data());
  }
  out.finish();
}

void CpuBackend::pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                                 const Tensor& dx) {
  // Marks lie as y lay; an average follows its gradient.
  const bool marked = workspace.defined();
  const Arrangement from = arrangement_of(marked ? workspace : dy,
                                          {.n = g.n, .places = g.h_out * g.w_out, .channels = g.c});
  Arrangement to = from;
  to.places = g.h * g.w;
  const void* marks = nullptr;
  if (marked) marks = blocked_form(workspace) ? blocked_form(workspace)->data() : workspace.raw();
  const ArrangedInput gradient(allocator_, dy, from);
  ArrangedOutput out(allocator_, dx, to);
  cpu::pool2d_backward(g, from.planes(), marks, gradient.data(), out.values());
  out.finish();
}

}  // namespace whisker::cpu
