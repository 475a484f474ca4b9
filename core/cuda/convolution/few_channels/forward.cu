// y = f(x * w + b) of Note [Few-channel convolutions], optionally followed by 2x2 max-pooling: rows
// of the gemm are positions, columns are output channels. Weights are in shared memory as
// fragments. A warp processes groups of 16-position tiles; with pooling the four positions of a
// window are the same accumulator registers of two tiles, so that a maximum needs no exchange. Each
// lane holds packs of adjacent channels: the columns of the gemm are permuted accordingly.
#include "core/cuda/convolution/few_channels/few_channels_conv.cuh"
#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/convolution/few_channels/fragments.cuh"
#include "core/cuda/device_code/mma.cuh"
#include "core/cuda/device_code/pdl.cuh"

#include <algorithm>
#include <cstdint>

namespace whisker::cuda {
namespace {

template <class T>
struct ForwardArguments {
  const T* x;       // (N,H,W,C)
  const T* w;       // (c_out, kernel, kernel, C)
  const T* b;       // (c_out) or null
  T* y;             // (N, h_out, w_out, c_out), or pooled: (N, h_out / 2, w_out / 2, c_out)
  uint8_t* argmax;  // of the pooled y, or null
  bool relu;

  __device__ float activated(float z) const { return relu && z < 0 ? 0.0f : z; }  // keeps NaN
};

/// One unit of A: the taps of a lane's position in tile row g (`low`) and g + 8 (`high`).
template <class T>
__device__ void load_positions(const T* low, const T* high, uint32_t (&a)[a_registers<T>]) {
  if constexpr (sizeof(T) == 4) {
    a[0] = __float_as_uint(low[0]);
    a[1] = __float_as_uint(high[0]);
    a[2] = __float_as_uint(low[4]);
    a[3] = __float_as_uint(high[4]);
  } else {
    a[0] = *reinterpret_cast<const uint32_t*>(low);
    a[1] = *reinterpret_cast<const uint32_t*>(high);
  }
}

/// acc[m][tile] += patch (positions of tile m) x weights, over all kernel rows.
template <class T, class S, int Tiles, int Group>
__device__ void multiply_positions(const T* patch, const int (&low)[Group],
                                   const int (&high)[Group], int pitch, const uint32_t* fragments,
                                   float (&acc)[Group][Tiles][4]) {
  constexpr int regs = b_registers<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int p = 0; p < S::kernel; ++p) {
    const T* row = patch + p * pitch;
#pragma unroll
    for (int unit = 0; unit < S::units; unit += sizeof(T) == 4 ? 1 : 2) {
      uint32_t b[2][Tiles][regs];
      const int together = sizeof(T) == 2 && unit + 1 < S::units ? 2 : 1;
#pragma unroll
      for (int u = 0; u < together; ++u) {
#pragma unroll
        for (int reg = 0; reg < regs; ++reg) {
#pragma unroll
          for (int tile = 0; tile < Tiles; tile += 4) {
            const uint4 four = *reinterpret_cast<const uint4*>(
                fragments + (((p * S::units + unit + u) * regs + reg) * 32 + lane) * Tiles + tile);
            b[u][tile][reg] = four.x;
            b[u][tile + 1][reg] = four.y;
            b[u][tile + 2][reg] = four.z;
            b[u][tile + 3][reg] = four.w;
          }
        }
      }
#pragma unroll
      for (int m = 0; m < Group; ++m) {
        uint32_t a0[a_registers<T>], a1[a_registers<T>];
        const int at = 8 * unit, next = 8 * (unit + 1);
        load_positions(row + low[m] + at, row + high[m] + at, a0);
        if (together == 2) load_positions(row + low[m] + next, row + high[m] + next, a1);
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) {
          if constexpr (sizeof(T) == 2) {
            if (together == 2) {
              multiply_add_two<T>(acc[m][tile], a0, a1, b[0][tile][0], b[1][tile][0]);
              continue;
            }
          }
          multiply_add<T>(acc[m][tile], a0, b[0][tile]);
        }
      }
    }
  }
}

/// Stores those of a lane's 2 Tiles channels below c_out of the position at `y`, as Us.
template <class T, class U, int Tiles, class Value>
__device__ void store_channels(U* y, int c_out, const Value& value) {
  constexpr int width = LaneChannels<T>::width;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int first = 0; first < 2 * Tiles; first += width) {
    const int channel = LaneChannels<T>::first(first / width, t);
    if (channel >= c_out) continue;
    Pack<U, width> pack;
#pragma unroll
    for (int i = 0; i < width; ++i) pack.at[i] = value(first + i);
    *reinterpret_cast<Pack<U, width>*>(y + channel) = pack;
  }
}

/// Output (i, j) of an image and, 8 columns on, the lane's second one, from one tile.
template <class T, int Tiles>
__device__ void store_positions(const ConvTiling& p, int image, int i, int j,
                                const float (&acc)[Tiles][4], const float (&bias)[2 * Tiles],
                                const ForwardArguments<T>& arguments) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = j + 8 * half;
    if (i >= p.h_out || column >= p.w_out) continue;
    const int64_t at = ((int64_t{image} * p.h_out + i) * p.w_out + column) * p.c_out;
    store_channels<T, T, Tiles>(arguments.y + at, p.c_out, [&](int c) {
      return from_f32<T>(arguments.activated(acc[c / 2][2 * half + c % 2] + bias[c]));
    });
  }
}

/// Window (i, j) of an image from the tiles of its two rows. The maximum is taken before the
/// activation, which is monotonic.
template <class T, int Tiles>
__device__ void store_windows(const ConvTiling& p, int image, int i, int j,
                              const float (&upper)[Tiles][4], const float (&lower)[Tiles][4],
                              const float (&bias)[2 * Tiles],
                              const ForwardArguments<T>& arguments) {
  if (i >= p.h_out / 2 || j >= p.w_out / 2) return;
  float values[2 * Tiles];
  uint8_t argmax[2 * Tiles];
#pragma unroll
  for (int c = 0; c < 2 * Tiles; ++c) {
    const float window[4] = {upper[c / 2][c % 2], upper[c / 2][2 + c % 2], lower[c / 2][c % 2],
                             lower[c / 2][2 + c % 2]};
    float largest = window[0];
    uint8_t position = 0;
#pragma unroll
    for (int k = 1; k < 4; ++k) {
      // Ties go to the first element; NaN is larger than everything but an earlier NaN.
      if (!(window[k] <= largest) && largest == largest) {
        largest = window[k];
        position = static_cast<uint8_t>(k);
      }
    }
    values[c] = arguments.activated(largest + bias[c]);
    argmax[c] = position;
  }
  const int64_t at = ((int64_t{image} * (p.h_out / 2) + i) * (p.w_out / 2) + j) * p.c_out;
  store_channels<T, T, Tiles>(arguments.y + at, p.c_out,
                              [&](int c) { return from_f32<T>(values[c]); });
  if (arguments.argmax) {
    store_channels<T, uint8_t, Tiles>(arguments.argmax + at, p.c_out,
                                      [&](int c) { return argmax[c]; });
  }
}

/// True when pairs of 16-bit elements also start at odd elements.
template <class T, class S>
inline constexpr bool shifted_copy = sizeof(T) == 2 && S::stride* S::channels % 2 == 1;

/// 16-position tiles that a warp multiplies at once.
template <int Tiles>
inline constexpr int tiles_at_once = 16 / Tiles;

/// Blocks of 8 warps split the output's tiles.
template <class T, class S, int Tiles, bool Pooled>
__global__ void __launch_bounds__(block_threads, blocks_per_multiprocessor)
    few_channels_forward_kernel(ConvTiling p, ForwardArguments<T> arguments) {
  wait_for_previous();
  extern __shared__ __align__(16) uint32_t memory[];
  const auto block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  constexpr bool shift = shifted_copy<T, S>;
  constexpr int group = tiles_at_once<Tiles>;
  uint32_t* const fragments = memory;
  T* const patch = reinterpret_cast<T*>(fragments + fragment_registers<T, S, Tiles>);
  const int pitch = patch_pitch<S>(p.tile_columns);
  T* const shifted = shift ? patch + patch_rows<S>(p.tile_rows) * pitch : nullptr;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;

  fill_weights<T, S, Tiles>(arguments.w, p.c_out, fragments);
  float bias[2 * Tiles] = {};  // of the lane's channels
  if (arguments.b) {
    constexpr int width = LaneChannels<T>::width;
#pragma unroll
    for (int i = 0; i < 2 * Tiles; ++i) {
      const int channel = LaneChannels<T>::first(i / width, t) + i % width;
      if (channel < p.c_out) bias[i] = to_f32(arguments.b[channel]);
    }
  }
  // Offset of the taps of output (row, column) of the tile, for this lane.
  const auto taps_of = [&](int row, int column) {
    const int element = S::stride * S::channels * column;
    const bool odd = shift && element % 2 != 0;
    const int start =
        row * S::stride * pitch + element - (odd ? 1 : 0) + (sizeof(T) == 4 ? t : 2 * t);
    return start + (odd ? patch_rows<S>(p.tile_rows) * pitch : 0);
  };

  const int tiles = tile_count(p);
  for (int at = block; at < tiles; at += blocks) {
    const ConvTile tile = tile_of(p, at);
    __syncthreads();  // the last patch has been read, the weights are stored
    fill_patch<S, T>(p, tile, arguments.x, patch, shifted);
    __syncthreads();

    // Items are 16 positions in a row or, pooled, 8 windows in a row (two 16-position tiles).
    constexpr int items_at_once = Pooled ? group / 2 : group;
    const int items_across = p.tile_columns / 16;
    const int items = (Pooled ? p.tile_rows / 2 : p.tile_rows) * items_across;
    for (int first = warp * items_at_once; first < items; first += block_warps * items_at_once) {
      int low[group], high[group];
#pragma unroll
      for (int m = 0; m < group; ++m) {
        const int item = min(first + (Pooled ? m / 2 : m), items - 1);
        const int row = item / items_across, column = item % items_across * 16;
        if constexpr (Pooled) {
          low[m] = taps_of(2 * row + m % 2, column + 2 * g);
          high[m] = taps_of(2 * row + m % 2, column + 2 * g + 1);
        } else {
          low[m] = taps_of(row, column + g);
          high[m] = taps_of(row, column + g + 8);
        }
      }
      float acc[group][Tiles][4] = {};
      multiply_positions<T, S, Tiles, group>(patch, low, high, pitch, fragments, acc);

#pragma unroll
      for (int m = 0; m < group; m += Pooled ? 2 : 1) {
        const int item = first + (Pooled ? m / 2 : m);
        if (item >= items) break;
        const int row = item / items_across, column = item % items_across * 16;
        if constexpr (Pooled) {
          store_windows<T, Tiles>(p, tile.image, tile.row / 2 + row, (tile.column + column) / 2 + g,
                                  acc[m], acc[m + 1], bias, arguments);
        } else {
          store_positions<T, Tiles>(p, tile.image, tile.row + row, tile.column + column + g, acc[m],
                                    bias, arguments);
        }
      }
    }
  }
}

/// Bytes of a block's shared memory.
template <class T, class S, int Tiles>
size_t block_bytes(const ConvTiling& p) {
  const int patch = patch_rows<S>(p.tile_rows) * patch_pitch<S>(p.tile_columns);
  return sizeof(uint32_t) * fragment_registers<T, S, Tiles> +
         sizeof(T) * static_cast<size_t>(patch) * (shifted_copy<T, S> ? 2 : 1);
}

}  // namespace

void few_channels_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                          const KernelSite& site) {
  const auto launch = [&]<class T, class S, int Filters, bool Pooled>() {
    constexpr int tiles = Filters / 8;
    const ConvTiling p = conv_tiling(request.geometry, S::stride == 1 ? 1024 : 512);
    const ForwardArguments<T> arguments{
        .x = static_cast<const T*>(operands.x),
        .w = static_cast<const T*>(operands.w),
        .b = static_cast<const T*>(operands.b),
        .y = static_cast<T*>(operands.y),
        .argmax = static_cast<uint8_t*>(operands.argmax),
        .relu = request.geometry.activation.kind == Activation::relu};
    const size_t bytes = block_bytes<T, S, tiles>(p);
    const int blocks = std::min(tile_count(p), resident_blocks(site, bytes));
    launch_few_channels(site, bytes, blocks, few_channels_forward_kernel<T, S, tiles, Pooled>, p,
                        arguments);
  };
  visit_few_channels(request, launch);
}

}  // namespace whisker::cuda
