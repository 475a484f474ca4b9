// How threads divide a depthwise convolution in NHWC, and what its kernels share. A thread has two
// adjacent channels and a strip of `tile` adjacent columns, and moves down the rows of a band. With
// a stride of 1, and in every forward pass, each row is loaded once, while the one before it is
// used, and serves all rows of the window, whose sums wait in registers. Columns beside the image
// are loaded as zeros, rows above and below it are skipped.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/packed.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/device_code/types.cuh"

#include <cstdint>

namespace whisker::cuda::depthwise {

inline constexpr int tile = 4;       // columns per thread
inline constexpr int channels = 2;   // per thread
inline constexpr int threads = 128;  // per block
inline constexpr int most_lanes = 32;

/// Blocks that a multiprocessor holds at once: K x K filters in registers leave few.
constexpr int resident_blocks(int window, int stride, bool f32) {
  if (window == 7 || (window == 5 && f32)) return 2;
  return window == 5 ? 3 : f32 || stride == 2 ? 4 : 5;
}

/// How blocks and threads divide the work. A block has the chunk blockIdx.y of the channels and the
/// slice blockIdx.x of the positions (image, band, strip): its thread t has pair t % lanes of the
/// channels and position t / lanes of every `positions` that the block takes, slice by slice.
struct Split {
  int lanes = 1;      // pairs of channels per block, at most most_lanes
  int chunks = 1;     // blocks along the channels
  int positions = 1;  // per block at a time
  int slices = 1;     // blocks along the positions
  int strips = 1;     // per row
  int bands = 1;      // per image
  int band_rows = 1;
  int64_t count = 1;             // of positions
  int64_t step = 1;              // positions of all slices at a time
  int64_t x_row = 0, y_row = 0;  // elements
};

struct Position {
  int64_t image;
  int band, strip;
};

__device__ inline Position position_of(const Split& split, int64_t at) {
  const int per_image = split.strips * split.bands;
  const int64_t image = at / per_image;
  const int rest = static_cast<int>(at - image * per_image);
  return {image, rest / split.strips, rest % split.strips};
}

/// Bit u: column first + u exists.
template <int columns>
__device__ inline uint32_t columns_inside(int first, int width) {
  uint32_t bits = 0;
#pragma unroll
  for (int u = 0; u < columns; ++u) {
    if (first + u >= 0 && first + u < width) bits |= 1u << u;
  }
  return bits;
}

/// to[u] = the pair of channels at row + u stride, 0 where `inside` lacks bit u.
template <int columns, class T>
__device__ inline void load_columns(const T* row, int stride, uint32_t inside,
                                    PackBytes<T, channels> (&to)[columns]) {
#pragma unroll
  for (int u = 0; u < columns; ++u) {
    to[u] = {};
    if (inside >> u & 1) to[u] = load_pack_bytes<channels>(row, 0);
    row += stride;
  }
}

template <int columns, class T>
__device__ inline void unpack_columns(const PackBytes<T, channels> (&from)[columns],
                                      float (&to)[columns][channels]) {
#pragma unroll
  for (int u = 0; u < columns; ++u) to_floats<T>(from[u], to[u]);
}
template <class T>
__device__ inline PackBytes<T, channels> pack_channels(const float (&from)[channels]) {
  const auto pack = rounded<T>(from);
  return reinterpret_cast<const PackBytes<T, channels>&>(pack);
}

/// sums[j] = sums[j + by]; the last rows start with `fill`.
template <int by, int rows>
__device__ inline void shift_rows(float (&sums)[rows][tile][channels],
                                  const float (&fill)[channels]) {
#pragma unroll
  for (int j = 0; j < rows; ++j) {
#pragma unroll
    for (int t = 0; t < tile; ++t) {
#pragma unroll
      for (int v = 0; v < channels; ++v) {
        sums[j][t][v] = j + by < rows ? sums[j + by][t][v] : fill[v];
      }
    }
  }
}

/// The filters (K,K) of a thread's channels from w (C,K,K), by way of shared memory (lanes x
/// channels filters of f32); turned around with `flip`.
template <class T, int K>
__device__ void load_filters(const T* w, bool flip, int first_channel, int channel_count, int lanes,
                             int lane, float (&taps)[K][K][channels]) {
  extern __shared__ float filters[];
  constexpr int most = most_lanes * channels * K * K;
  const int size = min(lanes * channels, channel_count - first_channel) * K * K;
  const T* const from = w + int64_t{first_channel} * K * K;
#pragma unroll
  for (int i = 0; i < most; i += threads) {  // all loads under way at once
    const int at = i + static_cast<int>(threadIdx.x);
    if (at < size) filters[at] = to_f32(from[at]);
  }
  __syncthreads();
  const int step = flip ? -1 : 1;
#pragma unroll
  for (int v = 0; v < channels; ++v) {
    const float* tap = filters + (lane * channels + v) * K * K + (flip ? K * K - 1 : 0);
#pragma unroll
    for (int at = 0; at < K * K; ++at, tap += step) taps[at / K][at % K][v] = *tap;
  }
}

}  // namespace whisker::cuda::depthwise
