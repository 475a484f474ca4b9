// The loops of pooling over one row of windows. Channels lie side by side, so that every loop runs
// along them, sixteen at a time in registers. Max-pooling leaves the winner's place within its
// window in a mark; the largest mark stands for a window without any picture element.
// T is float or bf16_t; gradients add up in f32.
#pragma once

#include "core/cpu/element.h"
#include "core/cpu/vectorize.h"
#include "core/geometry.h"

#include <algorithm>
#include <limits>

namespace whisker::cpu {

inline constexpr int64_t pool_lanes = 16;

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
template <class T, class Mark>
inline __attribute__((always_inline)) void max_window(const WindowRow& r, const WindowColumns& c,
                                                      int64_t inner, int64_t width, const T* x,
                                                      T* y, Mark* marks) {
  float best[pool_lanes];
  int32_t place[pool_lanes];
  for (int64_t i = 0; i < width; ++i) {
    best[i] = -std::numeric_limits<float>::infinity();
    place[i] = static_cast<Mark>(-1);
  }
  for (int64_t row = r.top; row < r.bottom; ++row) {
    for (int64_t column = c.left; column < c.right; ++column) {
      const T* from = x + (row * r.g.w + column) * inner;
      const auto here = static_cast<int32_t>((row - r.first_row) * r.g.kernel_w + column - c.first);
      const bool start = row == r.top && column == c.left;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        const float v = load(from[i]);
        const bool better = start | (!(v <= best[i]) & (best[i] == best[i]));
        best[i] = better ? v : best[i];
        place[i] = better ? here : place[i];
      }
    }
  }
  for (int64_t i = 0; i < width; ++i) {
    store(y[i], best[i]);
    marks[i] = static_cast<Mark>(place[i]);
  }
}

template <class T, class Mark>
inline __attribute__((always_inline)) void max_window_back(const WindowRow& r,
                                                           const WindowColumns& c, int64_t inner,
                                                           int64_t width, const Mark* marks,
                                                           const T* dy, float* dx) {
  float gradient[pool_lanes];
  int32_t place[pool_lanes];
  for (int64_t i = 0; i < width; ++i) {
    gradient[i] = load(dy[i]);
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

template <class T>
inline __attribute__((always_inline)) void average_window(const WindowRow& r,
                                                          const WindowColumns& c, int64_t inner,
                                                          int64_t width, const T* x, T* y) {
  float sum[pool_lanes] = {};
  for (int64_t row = r.top; row < r.bottom; ++row) {
    for (int64_t column = c.left; column < c.right; ++column) {
      const T* v = x + (row * r.g.w + column) * inner;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) sum[i] += load(v[i]);
    }
  }
  const float divisor = divisor_of(r, c);
  const float scale = divisor > 0 ? 1.0f / divisor : 0.0f;
  for (int64_t i = 0; i < width; ++i) store(y[i], sum[i] * scale);
}

template <class T>
inline __attribute__((always_inline)) void average_window_back(const WindowRow& r,
                                                               const WindowColumns& c,
                                                               int64_t inner, int64_t width,
                                                               const T* dy, float* dx) {
  const float scale = 1.0f / divisor_of(r, c);
  float share[pool_lanes];
  for (int64_t i = 0; i < width; ++i) share[i] = load(dy[i]) * scale;
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
    for (; channel + pool_lanes <= inner; channel += pool_lanes)
      fn(columns, j * inner, channel, pool_lanes);
    if (channel < inner) fn(columns, j * inner, channel, inner - channel);
  }
}

template <class T, class Mark>
WHISKER_VECTORIZE void max_row(const WindowRow& r, int64_t inner, const T* x, T* y, Mark* marks) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& columns, int64_t at, int64_t channel,
          int64_t width) __attribute__((always_inline)) {
        max_window(r, columns, inner, width, x + channel, y + at + channel, marks + at + channel);
      });
}

template <class T, class Mark>
WHISKER_VECTORIZE void max_row_back(const WindowRow& r, int64_t inner, const Mark* marks,
                                    const T* dy, float* dx) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& columns, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            max_window_back(r, columns, inner, width, marks + at + channel, dy + at + channel,
                            dx + channel);
          });
}

template <class T>
WHISKER_VECTORIZE void average_row(const WindowRow& r, int64_t inner, const T* x, T* y) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& columns, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            average_window(r, columns, inner, width, x + channel, y + at + channel);
          });
}

template <class T>
WHISKER_VECTORIZE void average_row_back(const WindowRow& r, int64_t inner, const T* dy, float* dx) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& columns, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            average_window_back(r, columns, inner, width, dy + at + channel, dx + channel);
          });
}

}  // namespace whisker::cpu
