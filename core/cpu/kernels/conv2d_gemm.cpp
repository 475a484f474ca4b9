// A block of images at a time is unfolded to rows of patches, (images h_out w_out, kh kw c),
// for one group; a 1x1 convolution without stride or padding needs no unfolding.
#include "core/cpu/kernels/conv2d_gemm.h"

#include "core/cpu/onednn/gemm.h"
#include "core/cpu/support/parallel.h"

#include <algorithm>
#include <cstring>

namespace whisker::cpu {
namespace {

constexpr int64_t block_bytes = int64_t{8} << 20;

struct Patches {
  explicit Patches(const Conv2dGeometry& g)
      : pixels(g.h_out * g.w_out),
        channels(g.c / g.groups),
        filters(g.c_out / g.groups),
        length(g.kernel_h * g.kernel_w * channels),
        direct(g.groups == 1 && g.kernel_h == 1 && g.kernel_w == 1 && g.stride_h == 1 &&
               g.stride_w == 1 && g.h_out == g.h && g.w_out == g.w && g.pad_top == 0 &&
               g.pad_left == 0) {
    const int64_t one = std::max<int64_t>(pixels * length * 4, 1);
    images = direct ? g.n : std::clamp<int64_t>(block_bytes / one, 1, std::max<int64_t>(g.n, 1));
  }
  int64_t pixels;    // of one output image
  int64_t channels;  // of one group
  int64_t filters;   // of one group
  int64_t length;    // of one patch
  bool direct;
  int64_t images;  // unfolded together
};

/// Calls fn(input_row_or_-1, patch_offset) for each kernel row and column of one output pixel.
template <class Fn>
void for_each_tap(const Conv2dGeometry& g, int64_t channels, int64_t pixel, Fn&& fn) {
  const int64_t row = pixel / g.w_out * g.stride_h - g.pad_top;
  const int64_t column = pixel % g.w_out * g.stride_w - g.pad_left;
  int64_t at = 0;
  for (int64_t r = 0; r < g.kernel_h; ++r) {
    const int64_t h = row + r * g.dilation_h;
    for (int64_t s = 0; s < g.kernel_w; ++s, at += channels) {
      const int64_t w = column + s * g.dilation_w;
      const bool inside = h >= 0 && h < g.h && w >= 0 && w < g.w;
      fn(inside ? h * g.w + w : -1, at);
    }
  }
}

void unfold(const Conv2dGeometry& g, const Patches& p, int64_t group, const float* x,
            int64_t images, float* patches) {
  const auto bytes = static_cast<size_t>(p.channels) * sizeof(float);
  parallel_ranges(images * p.pixels, 1024, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* image = x + i / p.pixels * g.h * g.w * g.c + group * p.channels;
      float* patch = patches + i * p.length;
      for_each_tap(g, p.channels, i % p.pixels, [&](int64_t pixel, int64_t at) {
        if (pixel < 0) {
          std::memset(patch + at, 0, bytes);
        } else {
          std::memcpy(patch + at, image + pixel * g.c, bytes);
        }
      });
    }
  });
}

// The reverse: adds patches to their pixels; dx starts at zero.
void fold(const Conv2dGeometry& g, const Patches& p, int64_t group, const float* patches,
          int64_t images, float* dx) {
  parallel_ranges(images, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * p.pixels; i < end * p.pixels; ++i) {
      float* image = dx + i / p.pixels * g.h * g.w * g.c + group * p.channels;
      const float* patch = patches + i * p.length;
      for_each_tap(g, p.channels, i % p.pixels, [&](int64_t pixel, int64_t at) {
        if (pixel < 0) return;
        float* target = image + pixel * g.c;
        for (int64_t c = 0; c < p.channels; ++c) target[c] += patch[at + c];
      });
    }
  });
}

/// Calls fn(first_image, images) over blocks of the batch.
template <class Fn>
void for_each_block(const Conv2dGeometry& g, const Patches& p, Fn&& fn) {
  for (int64_t n = 0; n < g.n; n += p.images) fn(n, std::min(p.images, g.n - n));
}

}  // namespace

void conv2d_gemm_forward(Allocator& allocator, const Conv2dGeometry& g, const float* x,
                         const float* w, float* y) {
  const Patches p(g);
  const Scratch<float> unfolded(allocator, p.direct ? 0 : p.images * p.pixels * p.length);
  for_each_block(g, p, [&](int64_t first, int64_t images) {
    const float* from = x + first * g.h * g.w * g.c;
    for (int64_t group = 0; group < g.groups; ++group) {
      if (!p.direct) unfold(g, p, group, from, images, unfolded.data());
      gemm({.size = {images * p.pixels, p.filters, p.length},
            .a = {p.direct ? from : unfolded.data(), p.length},
            .b = transposed(w + group * p.filters * p.length, p.length),
            .c = {y + first * p.pixels * g.c_out + group * p.filters, g.c_out}});
    }
  });
}

void conv2d_gemm_backward_input(Allocator& allocator, const Conv2dGeometry& g, const float* w,
                                const float* dz, float* dx) {
  const Patches p(g);
  const Scratch<float> unfolded(allocator, p.direct ? 0 : p.images * p.pixels * p.length);
  if (!p.direct) std::fill_n(dx, g.n * g.h * g.w * g.c, 0.0f);
  for_each_block(g, p, [&](int64_t first, int64_t images) {
    float* to = dx + first * g.h * g.w * g.c;
    for (int64_t group = 0; group < g.groups; ++group) {
      gemm({.size = {images * p.pixels, p.length, p.filters},
            .a = {dz + first * p.pixels * g.c_out + group * p.filters, g.c_out},
            .b = {w + group * p.filters * p.length, p.length},
            .c = {p.direct ? to : unfolded.data(), p.length}});
      if (!p.direct) fold(g, p, group, unfolded.data(), images, to);
    }
  });
}

void conv2d_gemm_backward_weights(Allocator& allocator, const Conv2dGeometry& g, const float* x,
                                  const float* dz, float* dw) {
  const Patches p(g);
  const Scratch<float> unfolded(allocator, p.direct ? 0 : p.images * p.pixels * p.length);
  if (g.n == 0) std::fill_n(dw, g.c_out * p.length, 0.0f);
  for_each_block(g, p, [&](int64_t first, int64_t images) {
    const float* from = x + first * g.h * g.w * g.c;
    for (int64_t group = 0; group < g.groups; ++group) {
      if (!p.direct) unfold(g, p, group, from, images, unfolded.data());
      gemm({.size = {p.filters, p.length, images * p.pixels},
            .a = transposed(dz + first * p.pixels * g.c_out + group * p.filters, g.c_out),
            .b = {p.direct ? from : unfolded.data(), p.length},
            .c = {dw + group * p.filters * p.length, p.length, first == 0 ? 0.0f : 1.0f}});
    }
  });
}

}  // namespace whisker::cpu
