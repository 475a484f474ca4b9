// The gradient of the depthwise convolution's weights, and what becomes of the sums of its slices.
#pragma once

#include "core/cuda/convolution/depthwise_norm.cuh"

#include <cstdint>
#include <type_traits>

namespace whisker::cuda::depthwise {

/// partial (slices, K K, C), f32: sums of the normalised x times dy over the positions that a slice
/// (blockIdx.x) has. A step is a row of dy and the S rows of x from its window's first; rows of dy
/// wait until the last row of x that they meet. Rows and columns that dy lacks are left out: a 0 in
/// their place would make NaN of an x that is not finite.
template <class T, int K, int S>
__global__ void __launch_bounds__(threads, resident_blocks(K, S, sizeof(T) == 4))
    backward_weights_kernel(Conv2dGeometry g, Split split, ImageNorm norm, const T* x, const T* dy,
                            float* partial) {
  wait_for_previous();
  constexpr int columns = (tile - 1) * S + K;
  constexpr int open = (K + S - 1) / S;  // rows of dy that a row of x meets
  __shared__ float sums_of_row[threads * K * channels];
  const int lane = static_cast<int>(threadIdx.x) % split.lanes;
  const int slot = static_cast<int>(threadIdx.x) / split.lanes;
  const int first_channel = static_cast<int>(blockIdx.y) * split.lanes * channels;
  const int c = static_cast<int>(g.c), channel = first_channel + lane * channels;
  const int pad_top = static_cast<int>(g.pad_top);
  const int h_out = static_cast<int>(g.h_out), w_out = static_cast<int>(g.w_out);
  const int x_stride = static_cast<int>(g.w) * c, dy_stride = w_out * c;
  float sums[K][K][channels] = {};
  const bool works = slot < split.positions && channel < c;
  const ChannelNorm channel_norm(norm, works ? channel : 0);
  for (int64_t at = int64_t{blockIdx.x} * split.positions + slot; works && at < split.count;
       at += split.step) {
    const auto [image, band, strip] = position_of(split, at);
    const int first_row = band * split.band_rows, end_row = min(first_row + split.band_rows, h_out);
    const int first = strip * tile, left = first * S - static_cast<int>(g.pad_left);
    int row = first_row * S - pad_top;
    const int end = min((end_row - 1) * S - pad_top + K, static_cast<int>(g.h));
    const uint32_t inside = columns_inside<columns>(left, static_cast<int>(g.w));
    const uint32_t dy_inside = columns_inside<tile>(first, w_out);
    const T* const in = x + image * g.h * x_stride + left * c + channel;
    const T* const gradient = dy + image * h_out * dy_stride + first * c + channel;

    PackBytes<T, channels> next[columns], next_dy[tile];
    PackBytes<T, channels> waiting[open][tile] = {};  // rows i - (open - 1) to i of dy
    uint32_t exist = 0;                               // bit j: waiting[j] is a row of the band
    const auto load_next = [&] {
      load_columns<columns>(in + int64_t{row} * x_stride, c, row >= 0 && row < end ? inside : 0,
                            next);
    };
    const auto load_next_dy = [&](int i) {
      load_columns<tile>(gradient + int64_t{i} * dy_stride, c, i < end_row ? dy_inside : 0,
                         next_dy);
    };
    load_next();
    load_next_dy(first_row);
    for (int i = first_row; i < end_row + open - 1; ++i) {
#pragma unroll
      for (int t = 0; t < tile; ++t) {
#pragma unroll
        for (int j = 0; j + 1 < open; ++j) waiting[j][t] = waiting[j + 1][t];
        waiting[open - 1][t] = next_dy[t];
      }
      exist = exist >> 1 | (i < end_row ? 1u << (open - 1) : 0);
      load_next_dy(i + 1);
#pragma unroll
      for (int phase = 0; phase < S; ++phase) {
        float from[columns][channels];
        unpack_columns<columns, T>(next, from);
        const bool exists = row >= 0 && row < end;
        ++row;
        load_next();
        if (!exists) continue;
        channel_norm.apply<T>(inside, from);
        const auto add = [&](auto whole) {  // whole: every column of dy exists
#pragma unroll
          for (int j = 0; j < open; ++j) {
            const int p = (open - 1 - j) * S + phase;
            if (p >= K || !(exist >> j & 1)) continue;
            float dz[tile][channels];
            unpack_columns<tile, T>(waiting[j], dz);
#pragma unroll
            for (int t = 0; t < tile; ++t) {
              if (!whole && !(dy_inside >> t & 1)) continue;
#pragma unroll
              for (int q = 0; q < K; ++q) {
#pragma unroll
                for (int v = 0; v < channels; ++v) sums[p][q][v] += from[t * S + q][v] * dz[t][v];
              }
            }
          }
        };
        if (dy_inside == (1u << tile) - 1) {
          add(std::true_type{});
        } else {
          add(std::false_type{});
        }
      }
    }
  }
  // The block's slots are added in order, a row of taps at a time.
  const int width = split.lanes * channels, size = K * width;
  float* const slice = partial + int64_t{blockIdx.x} * K * K * c + first_channel;
#pragma unroll
  for (int p = 0; p < K; ++p) {
    if (slot < split.positions) {
#pragma unroll
      for (int q = 0; q < K; ++q) {
#pragma unroll
        for (int v = 0; v < channels; ++v) {
          sums_of_row[slot * size + q * width + lane * channels + v] = sums[p][q][v];
        }
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int at = static_cast<int>(threadIdx.x); at < size; at += threads) {
      const int q = at / width, offset = at % width;
      float sum = 0;
      for (int from = 0; from < split.positions; ++from) sum += sums_of_row[from * size + at];
      if (first_channel + offset < c) slice[(p * K + q) * c + offset] = sum;
    }
    __syncthreads();
  }
}

/// dw (C, taps) from sums (taps, C).
template <class T>
struct StoreWeights {
  int taps, channel_count;
  T* dw;
  __device__ void operator()(int at, float sum) const {
    dw[int64_t{at % channel_count} * taps + at / channel_count] = from_f32<T>(sum);
  }
};

/// Gradients of gamma and beta, null: not wanted, and the factors of NormGradientRows, from the
/// sums of dz and of dz (x - mean) over `count` positions. All f32 (C).
struct StoreNormGradient {
  double count;
  const float *inv_std, *gamma;
  NormGradients to;
  __device__ void operator()(int channel, double2 sum) const {
    const double inverse = inv_std[channel], scale = inverse * gamma[channel];
    if (to.dbeta) to.dbeta[channel] = static_cast<float>(sum.x);
    if (to.dgamma) to.dgamma[channel] = static_cast<float>(sum.y * inverse);
    to.dz_factor[channel] = static_cast<float>(scale);
    to.x_factor[channel] = static_cast<float>(-scale * inverse * inverse * sum.y / count);
    to.offset[channel] = static_cast<float>(-scale * sum.x / count);
  }
};

}  // namespace whisker::cuda::depthwise
