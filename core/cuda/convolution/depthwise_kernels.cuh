// Kernels of the depthwise convolution: forward, both gradients, and the sum of the weights'
// slices. See core/cuda/convolution/depthwise_strips.cuh for how threads divide the work.
#pragma once

#include "core/cuda/convolution/depthwise_strips.cuh"

#include <cstdint>
#include <type_traits>

namespace whisker::cuda::depthwise {

/// y (N, h_out, w_out, C) = f(x (N,H,W,C) * w (C,K,K,1) + b), of the normalised x. With `flip` the
/// filters are turned around: the gradient of x for a stride of 1. A step is S rows of x and
/// completes a row of y.
template <class T, int K, int S>
__global__ void __launch_bounds__(threads, resident_blocks(K, S, sizeof(T) == 4))
    forward_kernel(Conv2dGeometry g, Split split, bool flip, ImageNorm norm, const T* x, const T* w,
                   const T* b, T* y) {
  constexpr int columns = (tile - 1) * S + K;
  constexpr int open = (K + S - 1) / S;  // rows of y that a row of x contributes to
  const int lane = static_cast<int>(threadIdx.x) % split.lanes;
  const int slot = static_cast<int>(threadIdx.x) / split.lanes;
  const int first_channel = static_cast<int>(blockIdx.y) * split.lanes * channels;
  const int c = static_cast<int>(g.c), channel = first_channel + lane * channels;
  float taps[K][K][channels];
  load_filters<T, K>(w, flip, first_channel, c, split.lanes, lane, taps);
  if (slot >= split.positions || channel >= c) return;
  const ChannelNorm channel_norm(norm, channel);
  float bias[channels];
#pragma unroll
  for (int v = 0; v < channels; ++v) bias[v] = b ? to_f32(b[channel + v]) : 0.0f;
  const int64_t step = int64_t{split.slices} * split.positions;
  for (int64_t at = int64_t{blockIdx.x} * split.positions + slot; at < split.count; at += step) {
    const auto [image, band, strip] = position_of(split, at);
    const int h_out = static_cast<int>(g.h_out), w_out = static_cast<int>(g.w_out);
    const int first_row = band * split.band_rows, end_row = min(first_row + split.band_rows, h_out);
    const int first = strip * tile, left = first * S - static_cast<int>(g.pad_left);
    const int top = first_row * S - static_cast<int>(g.pad_top);
    const int end = min((end_row - 1) * S - static_cast<int>(g.pad_top) + K, static_cast<int>(g.h));
    const uint32_t inside = columns_inside<columns>(left, static_cast<int>(g.w));
    const int in_stride = static_cast<int>(g.w) * c, out_stride = w_out * c;
    const T* const in = x + image * g.h * in_stride + left * c + channel;
    T* const out = y + image * h_out * out_stride + first * c + channel;

    float sums[open][tile][channels];  // of rows i - (open - 1) to i of y
#pragma unroll
    for (int j = 0; j < open; ++j) shift_rows<1>(sums, bias);
    const auto store = [&](int done) {
      if (done < first_row) return;
      activate_columns(g.activation, sums[0]);
      T* const to = out + int64_t{done} * out_stride;
#pragma unroll
      for (int t = 0; t < tile; ++t) {
        if (first + t < w_out) store_channels(to + t * c, sums[0][t]);
      }
    };
    const int above = min(max(-top / S, 0), open - 1);  // steps
    int i = first_row + above, row = top + above * S;
    PackBytes<T, channels> next[columns];
    uint32_t present;  // columns of `next` that are inside the image
    const auto load_next = [&] {
      present = row >= 0 && row < end ? inside : 0;
      load_columns<columns>(in + int64_t{row} * in_stride, c, present, next);
    };
    load_next();
    for (const int stop = first_row + (end - top + S - 1) / S; i < stop; ++i) {
      shift_rows<1>(sums, bias);
#pragma unroll
      for (int phase = 0; phase < S; ++phase) {
        float from[columns][channels];
        unpack_columns<columns, T>(next, from);
        const uint32_t of_image = present;
        ++row;
        load_next();
        channel_norm.apply<T>(of_image, from);
#pragma unroll
        for (int u = 0; u < columns; ++u) {
#pragma unroll
          for (int j = 0; j < open; ++j) {
            const int p = (open - 1 - j) * S + phase;
#pragma unroll
            for (int t = 0; t < tile; ++t) {
              const int q = u - t * S;
              if (p >= K || q < 0 || q >= K) continue;
#pragma unroll
              for (int v = 0; v < channels; ++v) sums[j][t][v] += from[u][v] * taps[p][q][v];
            }
          }
        }
      }
      store(i - (open - 1));
    }
    for (; i < end_row + open - 1; ++i) {  // rows below the image
      shift_rows<1>(sums, bias);
      store(i - (open - 1));
    }
  }
}

/// 1 where dx starts at an odd row (or column) of the padded image: the first pair lacks its first.
__host__ __device__ constexpr int odd_start(int64_t pad) {
  return static_cast<int>(pad & 1);
}

/// dx (N,H,W,C) from w and dy (N, h_out, w_out, C), stride 2. A step is a row of dy and completes
/// two rows of dx: bands count such pairs. Strips start where column + pad_left is even, so that
/// taps are known when compiling.
template <class T, int K>
__global__ void __launch_bounds__(threads, resident_blocks(K, 2, sizeof(T) == 4))
    backward_input_kernel(Conv2dGeometry g, Split split, const T* w, const T* dy, T* dx) {
  constexpr int open = (K + 1) / 2;  // rows of dy that a row of dx needs
  constexpr int columns = open + tile / 2 - 1;
  const int lane = static_cast<int>(threadIdx.x) % split.lanes;
  const int slot = static_cast<int>(threadIdx.x) / split.lanes;
  const int first_channel = static_cast<int>(blockIdx.y) * split.lanes * channels;
  const int c = static_cast<int>(g.c), channel = first_channel + lane * channels;
  float taps[K][K][channels];
  load_filters<T, K>(w, false, first_channel, c, split.lanes, lane, taps);
  if (slot >= split.positions || channel >= c) return;
  const float zeros[channels] = {};
  const int64_t step = int64_t{split.slices} * split.positions;
  for (int64_t at = int64_t{blockIdx.x} * split.positions + slot; at < split.count; at += step) {
    const auto [image, band, strip] = position_of(split, at);
    const int height = static_cast<int>(g.h), width = static_cast<int>(g.w);
    const int pad_top = static_cast<int>(g.pad_top), pad_left = static_cast<int>(g.pad_left);
    // Pair i: rows 2 i - pad_top and the next.
    const int first_pair = pad_top / 2 + band * split.band_rows;
    const int end_pair =
        min(first_pair + split.band_rows, pad_top / 2 + (height + odd_start(pad_top) + 1) / 2);
    const int first = strip * tile - odd_start(pad_left);
    const int left = (first + pad_left) / 2 - (open - 1);
    const int top = first_pair - (open - 1);
    const int end = min(end_pair, static_cast<int>(g.h_out));
    const uint32_t inside = columns_inside<columns>(left, static_cast<int>(g.w_out));
    const int in_stride = static_cast<int>(g.w_out) * c, out_stride = width * c;
    const T* const in = dy + image * g.h_out * in_stride + left * c + channel;
    T* const out = dx + image * height * out_stride + first * c + channel;

    float sums[K][tile][channels] = {};  // of rows 2 i - pad_top to 2 i - pad_top + K - 1 of dx
    const auto store = [&](int i) {
      if (i < first_pair) return;
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const int done = 2 * i - pad_top + p;
        T* const to = out + int64_t{done} * out_stride;
#pragma unroll
        for (int t = 0; t < tile; ++t) {
          if (done < 0 || done >= height || first + t < 0 || first + t >= width) continue;
          store_channels(to + t * c, sums[p][t]);
        }
      }
    };
    int i = max(top, 0);
    PackBytes<T, channels> next[columns];
    const auto load_next = [&](int row) {
      load_columns<columns>(in + int64_t{row} * in_stride, c, row < end ? inside : 0, next);
    };
    load_next(i);
    for (; i < end; ++i) {
      float from[columns][channels];
      unpack_columns<columns, T>(next, from);
      load_next(i + 1);
      shift_rows<2>(sums, zeros);
#pragma unroll
      for (int u = 0; u < columns; ++u) {
#pragma unroll
        for (int p = 0; p < K; ++p) {
#pragma unroll
          for (int t = 0; t < tile; ++t) {
            const int q = t - 2 * (u - (open - 1));
            if (q < 0 || q >= K) continue;
#pragma unroll
            for (int v = 0; v < channels; ++v) sums[p][t][v] += from[u][v] * taps[p][q][v];
          }
        }
      }
      store(i);
    }
    for (; i < end_pair; ++i) {  // rows below dy
      shift_rows<2>(sums, zeros);
      store(i);
    }
  }
}

/// partial (slices, K K, C), f32: sums of the normalised x times dy over the positions that a slice
/// (blockIdx.x) has. A step is a row of dy and the S rows of x from its window's first; rows of dy
/// wait until the last row of x that they meet. Rows and columns that dy lacks are left out: a 0 in
/// their place would make NaN of an x that is not finite.
template <class T, int K, int S>
__global__ void __launch_bounds__(threads, resident_blocks(K, S, sizeof(T) == 4))
    backward_weights_kernel(Conv2dGeometry g, Split split, ImageNorm norm, const T* x, const T* dy,
                            float* partial) {
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
  const ChannelNorm channel_norm(works ? norm : ImageNorm{}, channel);
  const int64_t step = int64_t{split.slices} * split.positions;
  for (int64_t at = int64_t{blockIdx.x} * split.positions + slot; works && at < split.count;
       at += step) {
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
        const auto add = [&](auto whole) {  // whole: every row and column of dy exists
#pragma unroll
          for (int j = 0; j < open; ++j) {
            const int p = (open - 1 - j) * S + phase;
            if (p >= K || (!whole && !(exist >> j & 1))) continue;
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
        if (exist == (1u << open) - 1 && dy_inside == (1u << tile) - 1) {
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

/// Outputs per block of add_slices_kernel: several threads add the slices of each.
inline constexpr int outputs_per_block = 8;

/// dw (C, taps) = the sums of partial (slices, taps, C) over the slices, in a fixed order.
template <class T>
__global__ void __launch_bounds__(threads)
    add_slices_kernel(const float* partial, int slices, int taps, int channel_count, T* dw) {
  constexpr int parts = threads / outputs_per_block;
  __shared__ float sums[parts][outputs_per_block];
  const int output = static_cast<int>(threadIdx.x) % outputs_per_block;
  const int part = static_cast<int>(threadIdx.x) / outputs_per_block;
  const int at = static_cast<int>(blockIdx.x) * outputs_per_block + output;
  const int count = taps * channel_count;
  float sum = 0;
  if (at < count) {
#pragma unroll 8
    for (int slice = part; slice < slices; slice += parts) {
      sum += partial[int64_t{slice} * count + at];
    }
  }
  sums[part][output] = sum;
  __syncthreads();
  if (part > 0 || at >= count) return;
  for (int other = 1; other < parts; ++other) sum += sums[other][output];
  dw[int64_t{at % channel_count} * taps + at / channel_count] = from_f32<T>(sum);
}

}  // namespace whisker::cuda::depthwise
