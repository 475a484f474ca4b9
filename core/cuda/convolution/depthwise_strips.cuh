// How threads divide a depthwise convolution in NHWC, and what its kernels share. A thread has two
// adjacent channels and a strip of `tile` adjacent columns, and moves down the rows of a band: each
// row is loaded once and serves all rows of the window, whose sums (or gradients) wait in
// registers. The next row is loaded while this one is used. Columns beside the image are loaded as
// zeros, rows above and below it are skipped.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/packed.cuh"
#include "core/cuda/device_code/types.cuh"

#include <cstdint>
#include <type_traits>

namespace whisker::cuda::depthwise {

inline constexpr int tile = 4;       // columns per thread
inline constexpr int channels = 2;   // per thread
inline constexpr int threads = 128;  // per block

/// Blocks that a multiprocessor holds at once: K x K filters in registers leave few.
constexpr int resident_blocks(int window, int stride, bool f32) {
  if (window == 7 || (window == 5 && f32)) return 2;
  return window == 5 ? 3 : f32 || stride == 2 ? 4 : 5;
}

/// How blocks and threads divide the work. A block has the chunk blockIdx.y of the channels and the
/// slice blockIdx.x of the positions (image, band, strip): its thread t has pair t % lanes of the
/// channels and position t / lanes of every `positions` that the block takes, slice by slice.
struct Split {
  int lanes = 1;      // pairs of channels per block
  int chunks = 1;     // blocks along the channels
  int positions = 1;  // per block at a time
  int slices = 1;     // blocks along the positions
  int strips = 1;     // per row
  int bands = 1;      // per image
  int band_rows = 1;
  int64_t count = 1;  // of positions
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
  for (int u = 0; u < columns; ++u) {
    if constexpr (std::is_same_v<T, bfloat_t>) {  // one instruction each
      to[u][0] = __uint_as_float(from[u] << 16);
      to[u][1] = __uint_as_float(from[u] & 0xffff0000u);
    } else {
      const auto pack = unpack<T, channels>(from[u]);
#pragma unroll
      for (int v = 0; v < channels; ++v) to[u][v] = to_f32(pack.at[v]);
    }
  }
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

template <class T>
__device__ inline void store_channels(T* to, const float (&from)[channels]) {
  Pack<T, channels> pack;
#pragma unroll
  for (int v = 0; v < channels; ++v) pack.at[v] = from_f32<T>(from[v]);
  *reinterpret_cast<Pack<T, channels>*>(to) = pack;
}

/// f of each sum. They take turns in one loop: unrolled, f would be most of a kernel's code.
__device__ inline void activate_columns(ActivationSpec f, float (&sums)[tile][channels]) {
  if (f.kind == Activation::none) return;
#pragma unroll 1
  for (int turn = 0; turn < tile * channels; ++turn) {
    const float z = activate(f, sums[0][0]);
#pragma unroll
    for (int k = 0; k + 1 < tile * channels; ++k) {
      sums[k / channels][k % channels] = sums[(k + 1) / channels][(k + 1) % channels];
    }
    sums[tile - 1][channels - 1] = z;
  }
}

/// The filters (K,K) of a thread's channels from w (C,K,K), by way of shared memory (lanes x
/// channels filters of f32); turned around with `flip`.
template <class T, int K>
__device__ void load_filters(const T* w, bool flip, int first_channel, int channel_count, int lanes,
                             int lane, float (&taps)[K][K][channels]) {
  extern __shared__ float filters[];
  const int size = min(lanes * channels, channel_count - first_channel) * K * K;
  const T* const from = w + int64_t{first_channel} * K * K;
  for (int at = static_cast<int>(threadIdx.x); at < size; at += threads) {
    const int c = at / (K * K), tap = at % (K * K);
    // Even channels, then odd ones: the lanes of a warp read from different banks.
    const int filter = c % channels * lanes + c / channels;
    filters[filter * K * K + (flip ? K * K - 1 - tap : tap)] = to_f32(from[at]);
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < channels; ++v) {
#pragma unroll
    for (int tap = 0; tap < K * K; ++tap) {
      taps[tap / K][tap % K][v] = filters[(v * lanes + lane) * K * K + tap];
    }
  }
}

/// The batch_norm of a normalised image, f32 (C) each; mean null: there is none.
struct ImageNorm {
  const float *mean = nullptr, *inv_std = nullptr, *gamma = nullptr, *beta = nullptr;
  ActivationSpec activation = {};  ///< one that a batch_norm computes
};

/// Its factors for a thread's channels.
class ChannelNorm {
 public:
  __device__ ChannelNorm(const ImageNorm& norm, int channel)
      : some_(norm.mean), kind_(norm.activation.kind) {
    if (!some_) return;
#pragma unroll
    for (int v = 0; v < channels; ++v) {
      center_[v] = norm.mean[channel + v];
      scale_[v] = norm.inv_std[channel + v] * norm.gamma[channel + v];
      shift_[v] = norm.beta[channel + v];
    }
  }

  /// Normalises columns, rounding to T as the batch_norm alone does; those not `inside` stay 0.
  template <class T, int columns>
  __device__ void apply(uint32_t inside, float (&x)[columns][channels]) const {
    if (!some_) return;
    const auto each = [&](const auto& f) {
#pragma unroll
      for (int u = 0; u < columns; ++u) {
#pragma unroll
        for (int v = 0; v < channels; ++v) {
          const float z = fmaf(x[u][v] - center_[v], scale_[v], shift_[v]);
          if (inside >> u & 1) x[u][v] = to_f32(from_f32<T>(f(z)));
        }
      }
    };
    switch (kind_) {
      case Activation::relu:
        return each([](float z) { return activate({Activation::relu}, z); });
      case Activation::relu6:
        return each([](float z) { return activate({Activation::relu6}, z); });
      case Activation::hard_swish:
        return each([](float z) { return activate({Activation::hard_swish}, z); });
      case Activation::silu:
        return each([](float z) { return activate({Activation::silu}, z); });
      default:
        return each([](float z) { return z; });
    }
  }

 private:
  bool some_;
  Activation kind_;
  float center_[channels] = {}, scale_[channels] = {}, shift_[channels] = {};
};

}  // namespace whisker::cuda::depthwise
