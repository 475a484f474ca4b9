// Kernels of the depthwise convolution over rows: forward and the gradient of x. See
// core/cuda/convolution/depthwise_strips.cuh for how threads divide the work, and
// core/cuda/convolution/depthwise_rows.cuh for what becomes of the rows.
#pragma once

#include "core/cuda/convolution/depthwise_rows.cuh"

#include <cstdint>

namespace whisker::cuda::depthwise {

/// Rows of y (N, h_out, w_out, C) = x (N,H,W,C) * w (C,K,K,1), of the normalised x where Rows reads
/// a norm. With `flip` the filters are turned around: the gradient of x for a stride of 1. A step
/// is S rows of x and completes a row of y.
template <class T, int K, int S, class Rows>
__global__ void __launch_bounds__(threads, resident_blocks(K, S, sizeof(T) == 4))
    forward_kernel(Conv2dGeometry g, Split split, bool flip, ImageNorm norm, const T* x, const T* w,
                   typename Rows::Operands operands, double2* partial) {
  wait_for_previous();
  constexpr int columns = (tile - 1) * S + K;
  constexpr int open = (K + S - 1) / S;  // rows of y that a row of x contributes to
  const int lane = static_cast<int>(threadIdx.x) % split.lanes;
  const int slot = static_cast<int>(threadIdx.x) / split.lanes;
  const int first_channel = static_cast<int>(blockIdx.y) * split.lanes * channels;
  const int c = static_cast<int>(g.c), channel = first_channel + lane * channels;
  float taps[K][K][channels];
  load_filters<T, K>(w, flip, first_channel, c, split.lanes, lane, taps);
  const bool works = slot < split.positions && channel < c;
  const ChannelNorm channel_norm(Rows::reads_norm ? norm : ImageNorm{}, works ? channel : 0);
  Rows rows(operands, works ? channel : 0);
  for (int64_t at = int64_t{blockIdx.x} * split.positions + slot; works && at < split.count;
       at += split.step) {
    const auto [image, band, strip] = position_of(split, at);
    const int h_out = static_cast<int>(g.h_out);
    const int first_row = band * split.band_rows, end_row = min(first_row + split.band_rows, h_out);
    const int first = strip * tile, left = first * S - static_cast<int>(g.pad_left);
    const int top = first_row * S - static_cast<int>(g.pad_top);
    const int end = min((end_row - 1) * S - static_cast<int>(g.pad_top) + K, static_cast<int>(g.h));
    const uint32_t inside = columns_inside<columns>(left, static_cast<int>(g.w));
    StripRow done{(image * h_out + first_row) * split.y_row + first * c + channel, c,
                  columns_inside<tile>(first, static_cast<int>(g.w_out))};

    float sums[open][tile][channels];  // of rows i - (open - 1) to i of y
#pragma unroll
    for (int j = 0; j < open; ++j) shift_rows<1>(sums, rows.start);
    rows.load(0, done);
    const auto complete = [&](int row) {
      if (row < first_row) return;
      rows.use(0, done, sums[0]);
      done.at += split.y_row;
      if (row + 1 < end_row) rows.load(0, done);
    };
    const int above = min(max(-top / S, 0), open - 1);  // steps
    int i = first_row + above, row = top + above * S;
    const T* in = x + (image * g.h + row) * split.x_row + left * c + channel;
    PackBytes<T, channels> next[columns];
    uint32_t present;  // columns of `next` that are inside the image
    const auto load_next = [&] {
      present = row >= 0 && row < end ? inside : 0;
      load_columns<columns>(in, c, present, next);
      in += split.x_row;
    };
    load_next();
    const int below = first_row + (end - top + S - 1) / S;  // no row of x from this step on
    for (; i < end_row + open - 1; ++i) {
      shift_rows<1>(sums, rows.start);
#pragma unroll
      for (int phase = 0; i < below && phase < S; ++phase) {
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
      complete(i - (open - 1));
    }
  }
  if constexpr (Rows::adds_up) add_block(split, first_channel, c, rows, partial);
}

/// 1 where dx starts at an odd row (or column) of the padded image: the first pair lacks its first.
__host__ __device__ constexpr int odd_start(int64_t pad) {
  return static_cast<int>(pad & 1);
}

/// Rows of the gradient (N,H,W,C) of x from w and dy (N, h_out, w_out, C), stride 2. A step
/// computes two rows from the rows of dy that they need, which come from the L1 cache but for the
/// first time: bands count such pairs. Strips start where column + pad_left is even, so that taps
/// are known when compiling.
template <class T, int K, class Rows>
__global__ void __launch_bounds__(threads, resident_blocks(K, 2, sizeof(T) == 4))
    backward_input_kernel(Conv2dGeometry g, Split split, const T* w, const T* dy,
                          typename Rows::Operands operands, double2* partial) {
  wait_for_previous();
  constexpr int open = (K + 1) / 2;  // rows of dy that a row of dx needs
  constexpr int columns = open + tile / 2 - 1;
  const int lane = static_cast<int>(threadIdx.x) % split.lanes;
  const int slot = static_cast<int>(threadIdx.x) / split.lanes;
  const int first_channel = static_cast<int>(blockIdx.y) * split.lanes * channels;
  const int c = static_cast<int>(g.c), channel = first_channel + lane * channels;
  float taps[K][K][channels];
  load_filters<T, K>(w, false, first_channel, c, split.lanes, lane, taps);
  const bool works = slot < split.positions && channel < c;
  Rows rows(operands, works ? channel : 0);
  for (int64_t at = int64_t{blockIdx.x} * split.positions + slot; works && at < split.count;
       at += split.step) {
    const auto [image, band, strip] = position_of(split, at);
    const int height = static_cast<int>(g.h), width = static_cast<int>(g.w);
    const int pad_top = static_cast<int>(g.pad_top), pad_left = static_cast<int>(g.pad_left);
    // Pair i: rows 2 i - pad_top and the next.
    const int first_pair = pad_top / 2 + band * split.band_rows;
    const int end_pair =
        min(first_pair + split.band_rows, pad_top / 2 + (height + odd_start(pad_top) + 1) / 2);
    const int first = strip * tile - odd_start(pad_left);
    const int left = (first + pad_left) / 2 - (open - 1);
    const uint32_t inside = columns_inside<columns>(left, static_cast<int>(g.w_out));
    const uint32_t dx_inside = columns_inside<tile>(first, width);
    const T* const in = dy + image * g.h_out * split.y_row + left * c + channel;
    for (int pair = first_pair; pair < end_pair; ++pair) {
      StripRow done[2];
      float sums[2][tile][channels];
      shift_rows<2>(sums, rows.start);
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const int row = 2 * pair - pad_top + p;
        done[p] = {(image * height + row) * split.x_row + first * c + channel, c,
                   row >= 0 && row < height ? dx_inside : 0};
        rows.load(p, done[p]);
      }
#pragma unroll
      for (int r = 0; r < open; ++r) {
        const int row = pair - (open - 1) + r;
        if (row < 0 || row >= static_cast<int>(g.h_out)) continue;
        PackBytes<T, channels> of_dy[columns];
        float from[columns][channels];
        load_columns<columns>(in + row * split.y_row, c, inside, of_dy);
        unpack_columns<columns, T>(of_dy, from);
#pragma unroll
        for (int u = 0; u < columns; ++u) {
#pragma unroll
          for (int p = 0; p < 2; ++p) {
#pragma unroll
            for (int t = 0; t < tile; ++t) {
              const int tap = p + 2 * (open - 1 - r), q = t - 2 * (u - (open - 1));
              if (tap >= K || q < 0 || q >= K) continue;
#pragma unroll
              for (int v = 0; v < channels; ++v) sums[p][t][v] += from[u][v] * taps[tap][q][v];
            }
          }
        }
      }
#pragma unroll
      for (int p = 0; p < 2; ++p) rows.use(p, done[p], sums[p]);
    }
  }
  if constexpr (Rows::adds_up) add_block(split, first_channel, c, rows, partial);
}

}  // namespace whisker::cuda::depthwise
