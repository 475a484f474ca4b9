// Pooling of one row of windows. The innermost loops run over channels, sixteen at a time in
// registers: `width` is a constant where all sixteen are there. Max-pooling stores the argmax of
// each window, an index row by row within the window; a window outside the image has the largest
// index. T is float or bf16_t; gradients are summed in f32.
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

/// Calls fn(columns, position in the row of y, channel, width) for `width` channels of every window
/// of a row, sixteen at a time.
template <class Fn>
inline __attribute__((always_inline)) void for_each_window(const Pool2dGeometry& g, int64_t inner,
                                                           Fn&& fn) {
  for (int64_t j = 0; j < g.w_out; ++j) {
    const WindowColumns columns(g, j);
    int64_t channel = 0;
    for (; channel + pool_lanes <= inner; channel += pool_lanes)
      fn(columns, j * inner + channel, channel, pool_lanes);
    if (channel < inner) fn(columns, j * inner + channel, channel, inner - channel);
  }
}

/// Calls fn(position in the plane, index within the window) for the window's pixels in the image.
template <class Fn>
inline __attribute__((always_inline)) void for_each_pixel(const WindowRow& r,
                                                          const WindowColumns& c, int64_t inner,
                                                          Fn&& fn) {
  for (int64_t row = r.top; row < r.bottom; ++row) {
    for (int64_t column = c.left; column < c.right; ++column) {
      fn((row * r.g.w + column) * inner,
         static_cast<int32_t>((row - r.first_row) * r.g.kernel_w + column - c.first));
    }
  }
}

// Ties go to the first element; NaN is larger than everything.
template <class T, class Index>
WHISKER_VECTORIZE void max_row(const WindowRow& r, int64_t inner, const T* x, T* y, Index* argmax) {
  for_each_window(
      r.g, inner,
      [&](const WindowColumns& c, int64_t at, int64_t channel, int64_t width)
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
      [&](const WindowColumns& c, int64_t at, int64_t channel, int64_t width)
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
      [&](const WindowColumns& c, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            const bool is_large = (r.bottom - r.top) * (c.right - c.left) > stretch;
            float sum[pool_lanes] = {};
            double total[pool_lanes] = {};
            for (int64_t row = r.top; row < r.bottom; ++row) {
              for (int64_t first = c.left; first < c.right; first += stretch) {
                const int64_t end = std::min(first + stretch, c.right);
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
            const float divisor = divisor_of(r, c);
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
      [&](const WindowColumns& c, int64_t at, int64_t channel, int64_t width)
          __attribute__((always_inline)) {
            const float scale = 1.0f / divisor_of(r, c);
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

}  // namespace whisker::cpu
