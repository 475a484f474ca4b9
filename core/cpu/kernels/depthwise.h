// Gradients of convolutions with one filter per channel, over blocked images: oneDNN 2 has kernels
// for few of them (AVX2), and unfolded patches of one channel are slow. One plane (an image's block
// of channels) at a time; a pixel of a plane fills one vector.
#pragma once

#include "core/backend/geometry.h"
#include "core/cpu/layout/layout.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/pointwise.h"
#include "core/cpu/support/thread_sums.h"
#include "core/vectorize.h"

#include <algorithm>
#include <cstring>

namespace whisker::cpu {
namespace {

// The channels of one pixel of a plane. GCC ignores the attribute where its operand depends on a
// template.
template <int Inner>
struct Vector;
template <>
struct Vector<8> {
  typedef float Lanes __attribute__((vector_size(32)));
};
template <>
struct Vector<16> {
  typedef float Lanes __attribute__((vector_size(64)));
};

template <int Inner>
struct Pixel {
  using Lanes = typename Vector<Inner>::Lanes;

  template <class T>
  static inline __attribute__((always_inline)) void read(const T* from, Lanes& to) {
    float values[Inner];
    for (int i = 0; i < Inner; ++i) values[i] = load(from[i]);
    std::memcpy(&to, values, sizeof to);
  }
  template <class T>
  static inline __attribute__((always_inline)) void write(const Lanes& from, T* to) {
    float values[Inner];
    std::memcpy(values, &from, sizeof from);
    for (int i = 0; i < Inner; ++i) store(to[i], values[i]);
  }
};

/// Where one place of x meets dy along an axis: tap first + k stride at place out - k of dy, for k
/// in [begin, end).
struct Meetings {
  Meetings(int64_t at, int64_t stride, int64_t kernel, int64_t extent) {
    first = at % stride;
    out = at / stride;
    begin = std::max<int64_t>(0, out - (extent - 1));
    end = first < kernel ? std::min(out, (kernel - 1 - first) / stride) + 1 : 0;
  }
  int64_t first, out, begin, end;
};

// w (taps, Inner).
template <int Inner, class T>
WHISKER_VECTORIZE void input_plane(const Conv2dGeometry& g, const float* w, const T* dy, T* dx) {
  using P = Pixel<Inner>;
  for (int64_t h = 0; h < g.h; ++h) {
    const Meetings rows(h + g.pad_top, g.stride_h, g.kernel_h, g.h_out);
    for (int64_t column = 0; column < g.w; ++column) {
      const Meetings columns(column + g.pad_left, g.stride_w, g.kernel_w, g.w_out);
      typename P::Lanes sum = {};
      for (int64_t k = rows.begin; k < rows.end; ++k) {
        const float* taps =
            w + ((rows.first + k * g.stride_h) * g.kernel_w + columns.first) * Inner;
        const T* from = dy + ((rows.out - k) * g.w_out + columns.out) * Inner;
        for (int64_t l = columns.begin; l < columns.end; ++l) {
          typename P::Lanes d, tap;
          P::read(from - l * Inner, d);
          P::read(taps + l * g.stride_w * Inner, tap);
          sum += d * tap;
        }
      }
      P::write(sum, dx + (h * g.w + column) * Inner);
    }
  }
}

// dw (kernel_h Width, Inner) = the sums over the windows of rows [first, end) of one plane.
template <int Inner, int Width, class T>
WHISKER_VECTORIZE void weights_rows(const Conv2dGeometry& g, const T* x, const T* dy, int64_t first,
                                    int64_t end, float* dw) {
  using P = Pixel<Inner>;
  constexpr int64_t stretch = 256;  // windows of a row that are added in registers
  // Windows in [left, right) lie between the sides of the image.
  const int64_t left = std::min((g.pad_left + g.stride_w - 1) / g.stride_w, g.w_out);
  const int64_t last = g.w + g.pad_left - Width;
  const int64_t right = std::clamp(last < 0 ? 0 : last / g.stride_w + 1, left, g.w_out);
  std::fill_n(dw, g.kernel_h * Width * Inner, 0.0f);
  for (int64_t i = first; i < end; ++i) {
    for (int64_t r = 0; r < g.kernel_h; ++r) {
      const int64_t h = i * g.stride_h - g.pad_top + r;
      if (h < 0 || h >= g.h) continue;
      const T* const of_row = dy + i * g.w_out * Inner;
      const T* const row = x + h * g.w * Inner;
      typename P::Lanes sums[Width] = {};
      const auto flush = [&]() __attribute__((always_inline)) {
        for (int s = 0; s < Width; ++s) {
          float* const to = dw + (r * Width + s) * Inner;
          typename P::Lanes before;
          P::read(to, before);
          P::write(before + sums[s], to);
          sums[s] = typename P::Lanes{};
        }
      };
      const auto add = [&](int64_t j, bool clipped) __attribute__((always_inline)) {
        typename P::Lanes d, value;
        P::read(of_row + j * Inner, d);
        for (int s = 0; s < Width; ++s) {
          const int64_t column = j * g.stride_w - g.pad_left + s;
          if (clipped && (column < 0 || column >= g.w)) continue;
          P::read(row + column * Inner, value);
          sums[s] += d * value;
        }
      };
      for (int64_t j = 0; j < left; ++j) add(j, true);
      for (int64_t j = left; j < right; ++j) {
        if ((j - left) % stretch == stretch - 1) flush();
        add(j, false);
      }
      for (int64_t j = right; j < g.w_out; ++j) add(j, true);
      flush();
    }
  }
}

template <class Fn>
void visit_block(int64_t block, Fn&& fn) {
  block == 16 ? fn.template operator()<16>() : fn.template operator()<8>();
}

template <class Fn>
void visit_width(int64_t width, Fn&& fn) {
  if (width == 3) return fn.template operator()<3>();
  if (width == 5) return fn.template operator()<5>();
  fn.template operator()<7>();
}

}  // namespace

/// True for filters 3, 5 or 7 columns wide, undilated, one per channel, in blocks of 8 or 16.
inline bool takes_depthwise(const Conv2dGeometry& g, int64_t block) {
  return g.groups > 1 && g.groups == g.c && g.c == g.c_out && (block == 8 || block == 16) &&
         (g.kernel_w == 3 || g.kernel_w == 5 || g.kernel_w == 7) && g.dilation_h == 1 &&
         g.dilation_w == 1;
}

// T is float or bf16_t. `a` says how channels are blocked; w and dw are (channels, kernel_h,
// kernel_w).

template <class T>
void depthwise_backward_input(Allocator& allocator, const Conv2dGeometry& g, const ImageLayout& a,
                              const T* w, const T* dy, T* dx) {
  const int64_t taps = g.kernel_h * g.kernel_w;
  const Scratch<float> memory(allocator, a.blocks() * taps * a.inner());  // (blocks, taps, inner)
  float* const filters = memory.data();
  std::fill_n(filters, a.blocks() * taps * a.inner(), 0.0f);
  for (int64_t c = 0; c < g.c; ++c) {
    float* const to = filters + c / a.inner() * taps * a.inner() + c % a.inner();
    for (int64_t tap = 0; tap < taps; ++tap) to[tap * a.inner()] = load(w[c * taps + tap]);
  }
  const int64_t from = g.h_out * g.w_out * a.inner();
  const int64_t to = g.h * g.w * a.inner();
  visit_block(a.inner(), [&]<int Inner>() {
    parallel_each(a.outer(), rows_grain(to), [&](int64_t i, int) {
      input_plane<Inner>(g, filters + i % a.blocks() * taps * a.inner(), dy + i * from,
                         dx + i * to);
    });
  });
}

/// Sums run in f32 over an image, then in f64 per thread.
template <class T>
void depthwise_backward_weights(Allocator& allocator, const Conv2dGeometry& g, const ImageLayout& a,
                                const T* x, const T* dy, T* dw) {
  const int64_t taps = g.kernel_h * g.kernel_w;
  const int64_t of_block = taps * a.inner();
  const int64_t from = g.h * g.w * a.inner();
  const int64_t to = g.h_out * g.w_out * a.inner();
  const int64_t band = std::max<int64_t>(1, 512 / g.w_out);  // rows that are added in f32
  // (blocks, taps, inner)
  const ThreadSums totals(allocator, a.outer(), rows_grain(from), a.blocks() * of_block);
  const Scratch<float> parts(allocator, team_size(a.outer(), rows_grain(from)) * of_block);
  visit_block(a.inner(), [&]<int Inner>() {
    visit_width(g.kernel_w, [&]<int Width>() {
      parallel_each(a.outer(), rows_grain(from), [&](int64_t i, int thread) {
        float* const part = parts.data() + thread * of_block;
        for (int64_t row = 0; row < g.h_out; row += band) {
          weights_rows<Inner, Width>(g, x + i * from, dy + i * to, row,
                                     std::min(row + band, g.h_out), part);
          add_to_sums(part, totals.of(thread) + i % a.blocks() * of_block, of_block);
        }
      });
    });
  });
  for (int64_t c = 0; c < g.c; ++c) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t lane = c / a.inner() * of_block + tap * a.inner() + c % a.inner();
      store(dw[c * taps + tap], static_cast<float>(totals.total(lane)));
    }
  }
}

}  // namespace whisker::cpu
