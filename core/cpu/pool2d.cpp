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

struct Window {
  int64_t top, bottom, left, right;  // inside the picture
  int64_t first_row, first_column;   // of the window, perhaps in the padding
  float divisor;                     // what an average divides by
};

Window window_of(const Pool2dGeometry& g, int64_t i, int64_t j) {
  Window w{};
  w.first_row = i * g.stride_h - g.pad_top;
  w.first_column = j * g.stride_w - g.pad_left;
  w.top = std::max<int64_t>(w.first_row, 0);
  w.bottom = std::min(w.first_row + g.kernel_h, g.h);
  w.left = std::max<int64_t>(w.first_column, 0);
  w.right = std::min(w.first_column + g.kernel_w, g.w);
  const int64_t inside =
      std::max<int64_t>(w.bottom - w.top, 0) * std::max<int64_t>(w.right - w.left, 0);
  w.divisor = static_cast<float>(g.count_padding ? g.kernel_h * g.kernel_w : inside);
  return w;
}

template <class Mark>
WHISKER_VECTORIZE void max_start(float* y, Mark* mark, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = -std::numeric_limits<float>::infinity();
    mark[i] = std::numeric_limits<Mark>::max();
  }
}

// The first of equals wins, and a NaN wins over everything.
template <class Mark>
WHISKER_VECTORIZE void max_join(const float* x, Mark place, float* y, Mark* mark, int64_t count) {
  constexpr Mark nobody = std::numeric_limits<Mark>::max();
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const bool better = (x[i] > y[i]) | (mark[i] == nobody) | ((x[i] != x[i]) & (y[i] == y[i]));
    y[i] = better ? x[i] : y[i];
    mark[i] = better ? place : mark[i];
  }
}

template <class Mark>
WHISKER_VECTORIZE void max_return(const float* dy, const Mark* mark, Mark place, float* dx,
                                  int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] += mark[i] == place ? dy[i] : 0.0f;
}

WHISKER_VECTORIZE void add_scaled(const float* x, float scale, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] += scale * x[i];
}

WHISKER_VECTORIZE void scale_row(float* y, float scale, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] *= scale;
}

/// Calls fn(plane, window, position of the output place) for every place of planes [begin, end).
template <class Fn>
void for_each_window(const Pool2dGeometry& g, int64_t begin, int64_t end, Fn&& fn) {
  for (int64_t plane = begin; plane < end; ++plane) {
    for (int64_t i = 0; i < g.h_out; ++i) {
      for (int64_t j = 0; j < g.w_out; ++j) {
        fn(plane, window_of(g, i, j), (plane * g.h_out + i) * g.w_out + j);
      }
    }
  }
}

/// Calls fn(position in the plane, place within the window) for the places inside the picture.
template <class Fn>
void for_each_place(const Pool2dGeometry& g, const Window& w, Fn&& fn) {
  for (int64_t row = w.top; row < w.bottom; ++row) {
    for (int64_t column = w.left; column < w.right; ++column) {
      fn(row * g.w + column, (row - w.first_row) * g.kernel_w + column - w.first_column);
    }
  }
}

template <class Mark>
void max_forward(const Pool2dGeometry& g, const Planes& p, const float* x, float* y, Mark* marks) {
  const int64_t work = g.h_out * g.w_out * p.inner;
  parallel_ranges(p.outer(), rows_grain(work), [&](int64_t begin, int64_t end, int) {
    for_each_window(g, begin, end, [&](int64_t plane, const Window& w, int64_t at) {
      float* to = y + at * p.inner;
      Mark* mark = marks + at * p.inner;
      max_start(to, mark, p.inner);
      for_each_place(g, w, [&](int64_t place, int64_t in_window) {
        max_join(x + (plane * g.h * g.w + place) * p.inner, static_cast<Mark>(in_window), to, mark,
                 p.inner);
      });
    });
  });
}

template <class Mark>
void max_backward(const Pool2dGeometry& g, const Planes& p, const Mark* marks, const float* dy,
                  float* dx) {
  const int64_t plane_size = g.h * g.w * p.inner;
  parallel_ranges(p.outer(), rows_grain(plane_size), [&](int64_t begin, int64_t end, int) {
    std::fill(dx + begin * plane_size, dx + end * plane_size, 0.0f);
    for_each_window(g, begin, end, [&](int64_t plane, const Window& w, int64_t at) {
      for_each_place(g, w, [&](int64_t place, int64_t in_window) {
        max_return(dy + at * p.inner, marks + at * p.inner, static_cast<Mark>(in_window),
                   dx + plane * plane_size + place * p.inner, p.inner);
      });
    });
  });
}

void average_forward(const Pool2dGeometry& g, const Planes& p, const float* x, float* y) {
  const int64_t work = g.h_out * g.w_out * p.inner;
  parallel_ranges(p.outer(), rows_grain(work), [&](int64_t begin, int64_t end, int) {
    for_each_window(g, begin, end, [&](int64_t plane, const Window& w, int64_t at) {
      float* to = y + at * p.inner;
      std::fill_n(to, p.inner, 0.0f);
      for_each_place(g, w, [&](int64_t place, int64_t) {
        add_scaled(x + (plane * g.h * g.w + place) * p.inner, 1.0f, to, p.inner);
      });
      if (w.divisor > 0) scale_row(to, 1.0f / w.divisor, p.inner);
    });
  });
}

void average_backward(const Pool2dGeometry& g, const Planes& p, const float* dy, float* dx) {
  const int64_t plane_size = g.h * g.w * p.inner;
  parallel_ranges(p.outer(), rows_grain(plane_size), [&](int64_t begin, int64_t end, int) {
    std::fill(dx + begin * plane_size, dx + end * plane_size, 0.0f);
    for_each_window(g, begin, end, [&](int64_t plane, const Window& w, int64_t at) {
      for_each_place(g, w, [&](int64_t place, int64_t) {
        add_scaled(dy + at * p.inner, 1.0f / w.divisor, dx + plane * plane_size + place * p.inner,
                   p.inner);
      });
    });
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
    average_forward(g, p, x, y);
  } else if (narrow_marks(g)) {
    max_forward(g, p, x, y, static_cast<uint8_t*>(marks));
  } else {
    max_forward(g, p, x, y, static_cast<uint32_t*>(marks));
  }
}

void pool2d_backward(const Pool2dGeometry& g, const Planes& p, const void* marks, const float* dy,
                     float* dx) {
  if (g.kind == PoolKind::average) {
    average_backward(g, p, dy, dx);
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
