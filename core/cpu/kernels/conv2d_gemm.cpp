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
  parallel_each(images * p.pixels, 1024, [&](int64_t i, int) {
    const float* image = x + i / p.pixels * g.h * g.w * g.c + group * p.channels;
    float* patch = patches + i * p.length;
    for_each_tap(g, p.channels, i % p.pixels, [&](int64_t pixel, int64_t at) {
      pixel < 0 ? std::memset(patch + at, 0, bytes)
                : std::memcpy(patch + at, image + pixel * g.c, bytes);
    });
  });
}

// The reverse: adds patches to their pixels; dx starts at zero.
void fold(const Conv2dGeometry& g, const Patches& p, int64_t group, const float* patches,
          int64_t images, float* dx) {
  parallel_each(images, 1, [&](int64_t n, int) {
    float* image = dx + n * g.h * g.w * g.c + group * p.channels;
    for (int64_t i = 0; i < p.pixels; ++i) {
      const float* patch = patches + (n * p.pixels + i) * p.length;
      for_each_tap(g, p.channels, i, [&](int64_t pixel, int64_t at) {
        if (pixel < 0) return;
        float* target = image + pixel * g.c;
        for (int64_t c = 0; c < p.channels; ++c) target[c] += patch[at + c];
      });
    }
  });
}

}  // namespace

void conv2d_gemm(Allocator& allocator, const Conv2dGeometry& g, ConvolutionPass pass, float* x,
                 float* w, float* y) {
  const Patches p(g);
  const Scratch<float> unfolded(allocator, p.direct ? 0 : p.images * p.pixels * p.length);
  const bool to_x = pass == ConvolutionPass::backward_input;
  const bool to_w = pass == ConvolutionPass::backward_weights;
  if (to_x && !p.direct) std::fill_n(x, g.n * g.h * g.w * g.c, 0.0f);
  if (to_w && g.n == 0) std::fill_n(w, g.c_out * p.length, 0.0f);
  for (int64_t first = 0; first < g.n; first += p.images) {
    const int64_t images = std::min(p.images, g.n - first), rows = images * p.pixels;
    float* const block = x + first * g.h * g.w * g.c;
    float* const patches = p.direct ? block : unfolded.data();  // (rows, length)
    for (int64_t group = 0; group < g.groups; ++group) {
      float* const filters = w + group * p.filters * p.length;  // (filters, length)
      float* const results = y + first * p.pixels * g.c_out + group * p.filters;
      if (!to_x && !p.direct) unfold(g, p, group, block, images, patches);
      if (to_x) {
        gemm({.size = {rows, p.length, p.filters},
              .a = {results, g.c_out},
              .b = {filters, p.length},
              .c = {patches, p.length}});
      } else if (to_w) {
        gemm({.size = {p.filters, p.length, rows},
              .a = transposed(results, g.c_out),
              .b = {patches, p.length},
              .c = {filters, p.length, first == 0 ? 0.0f : 1.0f}});
      } else {
        gemm({.size = {rows, p.filters, p.length},
              .a = {patches, p.length},
              .b = transposed(filters, p.length),
              .c = {results, g.c_out}});
      }
      if (to_x && !p.direct) fold(g, p, group, patches, images, block);
    }
  }
}

}  // namespace whisker::cpu
