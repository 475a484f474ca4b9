// The gradient of the depthwise convolution's weights, and what becomes of the sums of its slices.
#pragma once

#include "core/cuda/convolution/depthwise_norm.cuh"

#include <cstdint>

namespace whisker::cuda::depthwise {

/// partial (slices, K K, C), f32: sums of the normalised x times dy over the positions that a slice
/// (a slot of a block) has, for f32, and on GPUs without tensor cores for 16 bits. Rows of x come
/// once, those of dy for each row of x that they meet, mostly from the L1 cache. Rows and columns
/// that dy lacks are left out: a 0 in their place would make NaN of an x that is not finite.
template <class T, int K, int S>
__global__ void __launch_bounds__(threads, resident_blocks(K, S, sizeof(T) == 4))
    backward_weights_kernel(Conv2dGeometry g, Split split, ImageNorm norm, const T* x, const T* dy,
                            float* partial) {
  wait_for_previous();
  constexpr int columns = (tile - 1) * S + K;
  const int lane = static_cast<int>(threadIdx.x) % split.lanes;
  const int slot = static_cast<int>(threadIdx.x) / split.lanes;
  const int first_channel = static_cast<int>(blockIdx.y) * split.lanes * channels;
  const int c = static_cast<int>(g.c), channel = first_channel + lane * channels;
  const int pad_top = static_cast<int>(g.pad_top), h_out = static_cast<int>(g.h_out);
  if (slot >= split.positions || channel >= c) return;
  const int64_t own = int64_t{blockIdx.x} * split.positions + slot;  // slice
  float sums[K][K][channels] = {};
  const ChannelNorm channel_norm(norm, channel);
  for (int64_t at = own; at < split.count; at += split.step) {
    const auto [image, band, strip] = position_of(split, at);
    const int first_row = band * split.band_rows, end_row = min(first_row + split.band_rows, h_out);
    const int first = strip * tile, left = first * S - static_cast<int>(g.pad_left);
    const int end = min((end_row - 1) * S - pad_top + K, static_cast<int>(g.h));
    const uint32_t inside = columns_inside<columns>(left, static_cast<int>(g.w));
    const uint32_t dy_inside = columns_inside<tile>(first, static_cast<int>(g.w_out));
    for (int row = max(first_row * S - pad_top, 0); row < end; ++row) {
      PackBytes<T, channels> of_x[columns];
      float from[columns][channels];
      load_columns<columns>(x + (image * g.h + row) * split.x_row + left * c + channel, c, inside,
                            of_x);
      unpack_columns<columns, T>(of_x, from);
      channel_norm.apply<T>(inside, from);
#pragma unroll
      for (int p = 0; p < K; ++p) {
        const int top = row + pad_top - p, i = top / S;  // the row of dy that meets it by tap row p
        if (top % S != 0 || i < first_row || i >= end_row) continue;
        PackBytes<T, channels> of_dy[tile];
        float dz[tile][channels];
        load_columns<tile>(dy + (image * h_out + i) * split.y_row + first * c + channel, c,
                           dy_inside, of_dy);
        unpack_columns<tile, T>(of_dy, dz);
#pragma unroll
        for (int t = 0; t < tile; ++t) {
          if (!(dy_inside >> t & 1)) continue;
#pragma unroll
          for (int q = 0; q < K; ++q) {
#pragma unroll
            for (int v = 0; v < channels; ++v) sums[p][q][v] += from[t * S + q][v] * dz[t][v];
          }
        }
      }
    }
  }
  float* const slice = partial + own * K * K * c + channel;
#pragma unroll
  for (int tap = 0; tap < K * K; ++tap) {
    *reinterpret_cast<float2*>(slice + tap * c) = {sums[tap / K][tap % K][0],
                                                   sums[tap / K][tap % K][1]};
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

/// Gradients of gamma and beta, null: not wanted, slope and shift, from the sums of dz and of dz (x
/// - mean) over `count` positions. All f32 (C).
struct StoreNormGradient {
  double count;
  const float *inv_std, *gamma;
  NormGradients to;
  __device__ void operator()(int channel, double2 sum) const {
    const double inverse = inv_std[channel], scale = inverse * gamma[channel];
    if (to.dbeta) to.dbeta[channel] = static_cast<float>(sum.x);
    if (to.dgamma) to.dgamma[channel] = static_cast<float>(sum.y * inverse);
    to.slope[channel] = static_cast<float>(-scale * inverse * inverse * sum.y / count);
    to.shift[channel] = static_cast<float>(-scale * sum.x / count);
  }
};

}  // namespace whisker::cuda::depthwise
