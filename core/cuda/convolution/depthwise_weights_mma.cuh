// The weight gradient of a depthwise convolution in 16-bit types, on tensor cores.
//
// Note [Depthwise gradients on tensor cores]
// Per channel dw[p][q] is the sum over i, j of x[S i + p][S j + q] dy[i][j]. A step takes some rows
// of x and the rows of dy that they meet, and multiplies two matrices per channel: A (16, 16) has
// in row (a, q) row a of x, shifted by q columns; B (16, 8) has in column n the row n of dy, the
// newest first; k runs over eight columns of two images. Element ((a, q), n) of the product belongs
// to row p = a + S n - (rows of x - S) of the window, whatever the step: the product stays in
// registers until the block's last step. Shared memory holds, for each four channels, columns of 16
// bytes: a pair of elements, of two images, per channel. So any shift is a whole column, one load
// brings the operands of four channels, and its lanes meet different banks. Each element of x is
// loaded and normalised once (but for the columns that strips share), and rows of dy wait in a
// ring. Columns and rows that dy lacks are zeros here: a value of x that is not finite may reach
// more of its channel's taps than it meets.
#pragma once

#include "core/cuda/convolution/convolution.h"
#include "core/cuda/convolution/depthwise_norm.cuh"
#include "core/cuda/device_code/mma.cuh"
#include "core/cuda/device_code/pdl.cuh"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace whisker::cuda::depthwise {

inline constexpr int mma_threads = 256;    // per block
inline constexpr int mma_blocks = 2;       // per multiprocessor
inline constexpr int loaded_channels = 8;  // per thread while loading
inline constexpr int most_packs = 4;       // per block
inline constexpr int k_columns = 8;        // of dy per multiplication
inline constexpr int zero_columns = 9;     // at the end of a plane, for rows that dy lacks

/// Rows of a step and of the ring of dy.
template <int K, int S>
struct MmaRows {
  static constexpr int x = S == 1 ? (K == 7 ? 2 : 3) : (K == 3 ? 4 : 2);
  static constexpr int dy = x / S;
  static constexpr int ring = S == 1 ? 8 : 4;
  static_assert(x * K <= 16 && (K - 1 + x - S) / S < ring);

  /// Row of A with row a of x, shifted by q. Its rows 2 i and 2 i + 1 come from different banks.
  static constexpr __device__ int of_a(int a, int q) {
    return q < K - 1 ? a * (K - 1) + q : x * (K - 1) + a;
  }
};

/// How blocks divide the work. Block (slice, chunk) takes every slices-th item: `together` strips
/// of pairs of images, down the rows of a band.
struct MmaSplit {
  int packs = 1;                   // of channels per block
  int chunks = 1;                  // blocks along the channels
  int slices = 0;                  // blocks along the items; 0: no tile fits
  int parts = 1;                   // warps that divide four channels' columns: a slice each
  int strips = 1;                  // per row
  int columns = 1;                 // of dy per strip
  int x_columns = 1, x_first = 0;  // of x that are loaded per strip, and the zeros before them
  int together = 1;
  int groups = 1;                          // of `together` strips
  int bands = 1, band_rows = 1;            // per image, of dy
  int steps = 1;                           // per band
  int k_steps = 1;                         // of k_columns per strip
  int x_pitch = 0, x_row = 0, dy_row = 0;  // columns of 16 bytes: of a strip and of rows
  int plane = 0;                           // the same of all rows of four channels

  int64_t shared_bytes() const {
    constexpr int64_t factors = 3 * most_packs * loaded_channels * 4;
    constexpr int64_t products = mma_threads / 32 * 16 * 8 * 16;
    return factors + std::max(int64_t{2} * packs * plane * 16, products);
  }
};

/// Four channels of two images, two of an image in a word, as words of two images each; of
/// f(element, channel).
template <class T, class Fn>
__device__ inline uint4 paired_images(uint2 first, uint2 second, const Fn& f) {
  const uint32_t words[4] = {first.x, first.y, second.x, second.y};
  float z[4][channels];
  unpack_columns<4, T>(words, z);
  const auto pair = [&](int v) {
    return two_rounded<T>(f(z[v / 2][v % 2], v), f(z[2 + v / 2][v % 2], v));
  };
  return {pair(0), pair(1), pair(2), pair(3)};
}
__device__ inline uint4 paired_images(uint2 first, uint2 second) {
  return {__byte_perm(first.x, second.x, 0x5410), __byte_perm(first.x, second.x, 0x7632),
          __byte_perm(first.y, second.y, 0x5410), __byte_perm(first.y, second.y, 0x7632)};
}
__device__ inline float channel_of(const float4& four, int v) {
  return v == 0 ? four.x : v == 1 ? four.y : v == 2 ? four.z : four.w;
}
/// The words of the first four channels of a pack, or of the last.
__device__ inline uint2 four_of(const uint4& pack, int which) {
  return which == 0 ? uint2{pack.x, pack.y} : uint2{pack.z, pack.w};
}

/// partial (slices parts, K K, C), f32: sums of the normalised x times dy. See Note [Depthwise
/// gradients on tensor cores].
template <class T, int K, int S>
__global__ void __launch_bounds__(mma_threads, mma_blocks)
    backward_weights_mma_kernel(Conv2dGeometry g, MmaSplit split, ImageNorm norm, const T* x,
                                const T* dy, float* partial) {
  wait_for_previous();
  using Rows = MmaRows<K, S>;
  extern __shared__ uint4 shared[];
  constexpr int most_channels = most_packs * loaded_channels;
  auto* const factors = reinterpret_cast<float*>(shared);  // (3, most_channels)
  uint4* const buffer = shared + 3 * most_channels / 4;
  const int thread = static_cast<int>(threadIdx.x);
  const int n = static_cast<int>(g.n), c = static_cast<int>(g.c);
  const int h = static_cast<int>(g.h), w = static_cast<int>(g.w);
  const int h_out = static_cast<int>(g.h_out), w_out = static_cast<int>(g.w_out);
  const int pad_top = static_cast<int>(g.pad_top), pad_left = static_cast<int>(g.pad_left);
  const int first_channel = static_cast<int>(blockIdx.y) * split.packs * loaded_channels;

  for (int at = thread; at < 2 * split.packs * split.plane; at += mma_threads) buffer[at] = {};
  if (thread < most_channels && first_channel + thread < c) {  // without a norm those of z = x
    const int channel = first_channel + thread;
    factors[thread] = norm.mean ? norm.mean[channel] : 0;
    factors[most_channels + thread] = norm.mean ? norm.inv_std[channel] * norm.gamma[channel] : 1;
    factors[2 * most_channels + thread] = norm.mean ? norm.beta[channel] : 0;
  }

  // What the thread loads: a pack of channels of a column of x and of one of dy.
  const int pack = thread % split.packs, slot = thread / split.packs;
  const int strip = slot / split.x_columns;
  int column = slot % split.x_columns;
  if (S == 2 && (column | 3) < split.x_columns) {  // neighbours store columns of one parity
    column = (column & ~3) + column % 2 * 2 + column / 2 % 2;
  }
  const int channel = first_channel + pack * loaded_channels;
  const bool loads_x = strip < split.together && channel < c;
  const bool loads_dy = loads_x && column < split.columns;
  const int x_column = column + split.x_first;
  uint4* const planes = buffer + 2 * pack * split.plane;
  // With a stride of 2, even columns stand before odd ones.
  uint4* const x_to = planes + strip * split.x_pitch +
                      (S == 1 ? x_column : x_column % 2 * (split.x_pitch / 2) + x_column / 2);
  uint4* const dy_to = planes + Rows::x * split.x_row + strip * split.k_steps * k_columns + column;
  const int x_stride = w * c, dy_stride = w_out * c;
  const int x_image = h * x_stride, dy_image = h_out * dy_stride;

  int item = static_cast<int>(blockIdx.x), first_row = 0, row = 0;  // of dy: the band's, the step's
  const auto end_row = [&] { return min(first_row + split.band_rows, h_out); };
  const T *x_from = x, *dy_from = dy;  // row 0 of the column in the pair's first image
  uint32_t present = 0;  // bits 0, 1: the pair's images that have the column of x; 2, 3: of dy
  const auto enter_item = [&] {
    row = first_row = item / split.groups * split.band_rows;
    const int at = item % split.groups * split.together + strip, pair = at / split.strips;
    const int start = at % split.strips * split.columns;
    const int x_at = start * S + x_column - pad_left, dy_at = start + column;
    const uint32_t images = 2 * pair + 1 < n ? 3 : 2 * pair < n ? 1 : 0;
    present = (loads_x && x_at >= 0 && x_at < w ? images : 0) |
              (loads_dy && dy_at < w_out ? images << 2 : 0);
    x_from = x + int64_t{2} * pair * x_image + int64_t{x_at} * c + channel;
    dy_from = dy + int64_t{2} * pair * dy_image + int64_t{dy_at} * c + channel;
  };
  const auto x_exists = [&](int a) {  // row a of the step
    const int at = row * S - pad_top + a;
    return at >= 0 && at < min(h, (end_row() - 1) * S + K - pad_top);
  };
  uint4 next_x[Rows::x][2], next_dy[Rows::dy][2];  // of the pair's images
  const auto load_pair = [&](const T* from, int image, uint32_t bits, uint4(&to)[2]) {
    to[0] = to[1] = {};
    if (bits & 1) to[0] = load_pack_bytes<loaded_channels>(from, 0);
    if (bits & 2) to[1] = load_pack_bytes<loaded_channels>(from, image);
  };
  const auto load_next = [&] {
#pragma unroll
    for (int a = 0; a < Rows::x; ++a) {
      load_pair(x_from + int64_t{row * S - pad_top + a} * x_stride, x_image,
                x_exists(a) ? present : 0, next_x[a]);
    }
#pragma unroll
    for (int b = 0; b < Rows::dy; ++b) {
      load_pair(dy_from + int64_t{row + b} * dy_stride, dy_image,
                row + b < end_row() ? present >> 2 : 0, next_dy[b]);
    }
  };
  const auto store_x = [&](auto kind) {  // normalised
    const uint32_t keep = (present & 1 ? 0xffffu : 0) | (present & 2 ? 0xffff0000u : 0);
#pragma unroll
    for (int four = 0; four < 2; ++four) {  // the first or last channels
      const auto factor = [&](int which) {
        return reinterpret_cast<const float4*>(factors + which * most_channels)[2 * pack + four];
      };
      const float4 center = factor(0), scale = factor(1), shift = factor(2);
      const auto value = [&](float x, int v) {
        const float z =
            normalised(x, channel_of(center, v), channel_of(scale, v), channel_of(shift, v));
        return activate({decltype(kind)::value}, z);
      };
#pragma unroll
      for (int a = 0; a < Rows::x; ++a) {
        uint4 to = {};
        if (x_exists(a)) {
          to = paired_images<T>(four_of(next_x[a][0], four), four_of(next_x[a][1], four), value);
        }
        x_to[four * split.plane + a * split.x_row] = {to.x & keep, to.y & keep, to.z & keep,
                                                      to.w & keep};
      }
    }
  };
  const auto store = [&] {
    if (loads_x) with_norm_activation(norm.activation.kind, store_x);
    if (loads_dy) {
#pragma unroll
      for (int b = 0; b < Rows::dy; ++b) {
        uint4* const to = dy_to + ((row + b) & (Rows::ring - 1)) * split.dy_row;
#pragma unroll
        for (int four = 0; four < 2; ++four) {
          to[four * split.plane] =
              paired_images(four_of(next_dy[b][0], four), four_of(next_dy[b][1], four));
        }
      }
    }
  };

  // What the lane multiplies: rows m and m + 8 of A, column m of B.
  const int lane = thread % 32, warp = thread / 32, m = lane / 4;
  const int fours = 2 * split.packs, four = warp % fours, part = warp / fours;
  const uint4* const operands = buffer + four * split.plane + lane % 4;
  const auto row_of_a = [&](int at) {  // Rows::of_a(a, q); rows after the last repeat it
    const int shifted = Rows::x * (K - 1);
    const int a = at < shifted ? at / (K - 1) : min(at - shifted, Rows::x - 1);
    const int q = at < shifted ? at % (K - 1) : K - 1;
    return operands + a * split.x_row + (S == 1 ? q : q % 2 * (split.x_pitch / 2) + q / 2);
  };
  const uint4 *const low = row_of_a(m), *const high = row_of_a(m + 8);
  float sums[4][4] = {};
  const auto multiply = [&](const uint4* b, int b_step) {
    for (int s = 0; s < split.together; ++s) {
      for (int k = part; k < split.k_steps; k += split.parts) {
        const int x_at = s * split.x_pitch + k * k_columns;
        const int b_at = (s * split.k_steps + k) * b_step;
        const uint4 b0 = b[b_at], b1 = b[b_at + 4];
        const uint4 low0 = low[x_at], high0 = high[x_at];
        const uint4 low1 = low[x_at + 4], high1 = high[x_at + 4];
        multiply_add_two<T>(sums[0], {low0.x, high0.x}, {low1.x, high1.x}, b0.x, b1.x);
        multiply_add_two<T>(sums[1], {low0.y, high0.y}, {low1.y, high1.y}, b0.y, b1.y);
        multiply_add_two<T>(sums[2], {low0.z, high0.z}, {low1.z, high1.z}, b0.z, b1.z);
        multiply_add_two<T>(sums[3], {low0.w, high0.w}, {low1.w, high1.w}, b0.w, b1.w);
      }
    }
  };

  enter_item();
  load_next();
  const int items = split.groups * split.bands;
  while (item < items) {
    __syncthreads();
    store();
    __syncthreads();
    const int row_of_b = row + Rows::dy - 1 - m;
    const bool exists = row_of_b >= first_row;
    const uint4* const b =
        operands + (exists ? Rows::x * split.x_row + (row_of_b & (Rows::ring - 1)) * split.dy_row
                           : split.plane - zero_columns);
    row += Rows::dy;
    if (row == first_row + split.steps * Rows::dy) {
      item += split.slices;
      if (item < items) enter_item();
    }
    if (item < items) load_next();
    if (part < split.parts) multiply(b, exists ? k_columns : 0);
  }

  // Taps of four channels at a time, by way of shared memory: (16, 8) of float4 per warp.
  __syncthreads();
  auto* const product = reinterpret_cast<float4*>(buffer) + warp * 16 * 8;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    product[(m + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = {sums[0][e], sums[1][e], sums[2][e],
                                                           sums[3][e]};
  }
  __syncwarp();
  const int to_channel = first_channel + four * 4;
  if (part >= split.parts || to_channel >= c) return;
  const int64_t slice = int64_t{blockIdx.x} * split.parts + part;
  for (int tap = lane; tap < K * K; tap += 32) {
    float4 sum = {};
#pragma unroll
    for (int a = 0; a < Rows::x; ++a) {
      const int s_n = tap / K + Rows::x - S - a;
      if (s_n % S != 0) continue;
      const float4 z = product[Rows::of_a(a, tap % K) * 8 + s_n / S];
      sum = {sum.x + z.x, sum.y + z.y, sum.z + z.z, sum.w + z.w};
    }
    *reinterpret_cast<float4*>(partial + (slice * K * K + tap) * c + to_channel) = sum;
  }
}

/// The split of `g`: tiles as wide as threads and shared memory allow, and bands so that the last
/// block ends early. Without slices where no tile fits, in f32 and where mma is missing.
template <int K, int S>
MmaSplit mma_split(const Conv2dGeometry& g, const KernelSite& site) {
  if (g.dtype == DType::f32 || site.capability < 80) return {};
  using Rows = MmaRows<K, S>;
  const auto divided_up = [](int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); };
  constexpr int64_t reserved = 1024;  // by the system, for each block
  const int64_t most_bytes =
      std::min(static_cast<int64_t>(site.shared_bytes),
               static_cast<int64_t>(site.multiprocessor_bytes) / mma_blocks - reserved);
  MmaSplit s;
  const int packs = static_cast<int>(g.c) / loaded_channels;
  s.chunks = divided_up(packs, most_packs);
  s.packs = divided_up(packs, s.chunks);
  s.parts = mma_threads / 32 / (2 * s.packs);
  const int slots = mma_threads / s.packs;
  const auto fits = [&](int together) {
    s.together = together;
    s.x_row = together * s.x_pitch + 4;  // the same shift of the next row: other banks
    s.dy_row = together * s.k_steps * k_columns + 4;
    s.plane = (Rows::x * s.x_row + Rows::ring * s.dy_row + 3) / 4 * 4 + zero_columns;
    return together * s.x_columns <= slots && s.shared_bytes() <= most_bytes;
  };
  for (s.strips = 1; s.strips <= g.w_out; ++s.strips) {
    s.columns = divided_up(g.w_out, s.strips);
    // One strip per row: its columns beside the image are zeros for good.
    s.x_first = s.strips == 1 && g.pad_left < K ? static_cast<int>(g.pad_left) : 0;
    s.x_columns = (s.columns - 1) * S + K - s.x_first;
    if (s.x_first > 0) {
      s.x_columns = std::min(s.x_columns, std::max(static_cast<int>(g.w), s.columns));
    }
    s.k_steps = divided_up(s.columns, k_columns);
    s.x_pitch = (s.k_steps * k_columns + (S == 1 ? 8 : 4)) * S;
    if (fits(1)) break;
  }
  MmaSplit best;
  int64_t least = std::numeric_limits<int64_t>::max();
  const int64_t strips = (g.n + 1) / 2 * s.strips;
  const int most_slices = std::max(mma_blocks * site.multiprocessors / s.chunks, 1);
  for (int together = 1; together <= strips && fits(together); ++together) {
    s.groups = divided_up(strips, together);
    for (s.bands = 1; s.bands <= g.h_out; ++s.bands) {
      s.band_rows = divided_up(g.h_out, s.bands);
      if (divided_up(g.h_out, s.band_rows) != s.bands) continue;  // the last would be empty
      s.steps = divided_up((s.band_rows - 1) * S + K, Rows::x);
      const int items = s.groups * s.bands;
      s.slices = std::min(items, most_slices);
      // A step costs a constant beside its columns.
      const int64_t cost =
          int64_t{divided_up(items, s.slices)} * s.steps * (together * s.x_columns + slots / 4);
      if (cost >= least) continue;
      least = cost;
      best = s;
    }
  }
  return best;
}

template <class T, int K, int S>
void backward_weights_mma(const KernelSite& site, const Conv2dGeometry& g, const MmaSplit& split,
                          const ImageNorm& norm, const void* x, const void* dy, void* partial) {
  if constexpr (sizeof(T) == 2) {
    const auto kernel = backward_weights_mma_kernel<T, K, S>;
    const auto bytes = static_cast<size_t>(split.shared_bytes());
    allow_shared_memory(kernel, bytes);
    const dim3 grid(static_cast<unsigned>(split.slices), static_cast<unsigned>(split.chunks));
    launch_pdl(site, {grid, mma_threads, bytes}, kernel, g, split, norm, x, dy, partial);
  }
}

}  // namespace whisker::cuda::depthwise
