// Pooling of one row of windows. The innermost loops run over channels, sixteen at a time in
// registers. Max-pooling stores the argmax of each window, an index row by row within the window; a
// window outside the image has the largest index. T is float or bf16_t; gradients are summed in
// f32.
#pragma once

#include "core/backend/geometry.h"
#include "core/cpu/support/element.h"
#include "core/vectorize.h"

#include <algorithm>
#include <limits>

namespace whisker::cpu {

inline constexpr int64_t pool_lanes = 16;

/// What the windows of one row of one plane have in common.
struct WindowRow {
  WindowRow(const Pool2dGeometry& geometry, int64_t i) : g(geometry), index(i) {
    first_row = i * g.stride_h - g.pad_top;
    top = std::max<int64_t>(first_row, 0);
    bottom = std::max(std::min(first_row + g.kernel_h, g.h), top);
  }
  const Pool2dGeometry& g;
  int64_t index, first_row, top, bottom;
};

/// The columns of one window that lie inside the image.
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

// Loops over `width` channels of one window; width is a constant where the caller's is one.

// Ties go to the first element; NaN is larger than everything.
template <class T, class Index>
inline __attribute__((always_inline)) void max_window(const WindowRow& r, const WindowColumns& c,
                                                      int64_t inner, int64_t width, const T* x,
                                                      T* y, Index* argmax) {
  float best[pool_lanes];
  int32_t index[pool_lanes];
  for (int64_t i = 0; i < width; ++i) {
    best[i] = -std::numeric_limits<float>::infinity();
    index[i] = static_cast<Index>(-1);
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
        index[i] = better ? here : index[i];
      }
    }
  }
  for (int64_t i = 0; i < width; ++i) {
    store(y[i], best[i]);
    argmax[i] = static_cast<Index>(index[i]);
  }
}

template <class T, class Index>
inline __attribute__((always_inline)) void max_window_back(const WindowRow& r,
                                                           const WindowColumns& c, int64_t inner,
                                                           int64_t width, const Index* argmax,
                                                           const T* dy, float* dx) {
  float gradient[pool_lanes];
  int32_t index[pool_lanes];
  for (int64_t i = 0; i < width; ++i) {
    gradient[i] = load(dy[i]);
    index[i] = static_cast<int32_t>(argmax[i]);
  }
  for (int64_t row = r.top; row < r.bottom; ++row) {
    for (int64_t column = c.left; column < c.right; ++column) {
      float* to = dx + (row * r.g.w + column) * inner;
      const auto here = static_cast<int32_t>((row - r.first_row) * r.g.kernel_w + column - c.first);
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] += index[i] == here ? gradient[i] : 0.0f;
    }
  }
}

template <class T>
inline __attribute__((always_inline)) void average_window(const WindowRow& r,
                                                          const WindowColumns& c, int64_t inner,
                                                          int64_t width, const T* x, T* y) {
  constexpr int64_t stretch = 64;  // elements added in f32
  const bool is_large = (r.bottom - r.top) * (c.right - c.left) > stretch;
  float sum[pool_lanes] = {};
  double total[pool_lanes] = {};
  for (int64_t row = r.top; row < r.bottom; ++row) {
    for (int64_t first = c.left; first < c.right; first += stretch) {
      const int64_t end = std::min(first + stretch, c.right);
      for (int64_t column = first; column < end; ++column) {
        const T* v = x + (row * r.g.w + column) * inner;
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
  const float divisor = divisor_of(r, c);
  const float scale = divisor > 0 ? 1.0f / divisor : 0.0f;
  for (int64_t i = 0; i < width; ++i) {
    store(y[i], (is_large ? static_cast<float>(total[i]) : sum[i]) * scale);
  }
}

template <class T>
inline __attribute__((always_inline)) void average_window_back(const WindowRow& r,
                                                               const WindowColumns& c,
                                                               int64_t inner, int64_t width,
                                                               const T* dy, float* dx) {
  const float scale = 1.0f / divisor_of(r, c);
  float scaled[pool_lanes];
  for (int64_t i = 0; i < width; ++i) scaled[i] = load(dy[i]) * scale;
  for (int64_t row = r.top; row < r.bottom; ++row) {
    for (int64_t column = c.left; column < c.right; ++column) {
      float* to = dx + (row * r.g.w + column) * inner;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] += scaled[i];
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

template <class T, class Index>
WHISKER_VECTORIZE void max_row(const WindowRow& r, int64_t inner, const T* x, T* y, Index* argmax) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& columns, int64_t at, int64_t channel,
          int64_t width) __attribute__((always_inline)) {
        max_window(r, columns, inner, width, x + channel, y + at + channel, argmax + at + channel);
      });
}

template <class T, class Index>
WHISKER_VECTORIZE void max_row_back(const WindowRow& r, int64_t inner, const Index* argmax,
                                    const T* dy, float* dx) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& columns, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            max_window_back(r, columns, inner, width, argmax + at + channel, dy + at + channel,
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
