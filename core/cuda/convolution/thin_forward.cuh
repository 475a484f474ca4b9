// The parts of the thin forward kernel: weights as fragments, the product, and the stores of places
// and of windows. See thin_forward.cu and Note [Thin convolutions].
#pragma once

#include "core/cuda/convolution/thin_convolution.cuh"
#include "core/cuda/device/launch.h"

namespace whisker::cuda {

template <class T>
struct ThinForwardArguments {
  const T* x;      // (N,H,W,C)
  const T* w;      // (c_out, kernel, kernel, C)
  const T* b;      // (c_out) or null
  T* y;            // (N, h_out, w_out, c_out), or pooled: (N, h_out / 2, w_out / 2, c_out)
  uint8_t* marks;  // of the pooled y, or null
  Bend activation;
};

/// Lane (g, t) has columns 2t and 2t + 1 of every tile of 8. They are the channels of its packs,
/// and the packs of the four t lie side by side, so that a store fills whole sectors.
template <class T>
struct Channels {
  static constexpr int width = pack_size<T>;  // channels of a pack: width / 2 tiles

  /// The output channel of column `column` (0..7) of tile `tile`.
  __device__ static int of(int tile, int column) {
    return tile / (width / 2) * (4 * width) + column / 2 * width + tile % (width / 2) * 2 +
           column % 2;
  }
  /// The first channel of pack `pack` of the lanes with `t`.
  __device__ static int first(int pack, int t) { return (4 * pack + t) * width; }
};

/// w as B fragments: [kernel row][unit][register][lane][tile].
template <class T, class S, int Tiles>
__device__ void fill_weights(const T* w, uint32_t* fragments) {
  constexpr int count = S::kernel * S::units * b_registers<T> * Tiles * 32;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += block_threads) {
    const int g = i / Tiles % 32 / 4, t = i / Tiles % 4;
    const int tile = i % Tiles;
    const int reg = i / (32 * Tiles) % b_registers<T>;
    const int unit = i / (32 * Tiles * b_registers<T>) % S::units;
    const int p = i / (32 * Tiles * b_registers<T> * S::units);
    const T* row = w + (Channels<T>::of(tile, g) * S::kernel + p) * S::row_taps;
    const auto tap = [&](int k) { return k < S::row_taps ? operand(row[k]) : from_f32<T>(0.0f); };
    if constexpr (sizeof(T) == 4) {
      fragments[i] = __float_as_uint(tap(8 * unit + t + 4 * reg));
    } else {
      const Pack<T, 2> pair{tap(8 * unit + 2 * t), tap(8 * unit + 2 * t + 1)};
      fragments[i] = reinterpret_cast<const uint32_t&>(pair);
    }
  }
}

/// One unit of A: the taps of a lane's place in tile row g (`low`) and g + 8 (`high`).
template <class T>
__device__ void load_places(const T* low, const T* high, uint32_t (&a)[a_registers<T>]) {
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

/// acc[m][tile] += patch (places of tile m) x weights, over all kernel rows.
template <class T, class S, int Tiles, int Group>
__device__ void multiply_places(const T* patch, const int (&low)[Group], const int (&high)[Group],
                                int pitch, const uint32_t* fragments,
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
        load_places(row + low[m] + 8 * unit, row + high[m] + 8 * unit, a0);
        if (together == 2)
          load_places(row + low[m] + 8 * unit + 8, row + high[m] + 8 * unit + 8, a1);
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

/// Stores a lane's 2 Tiles channels of the place at `y`, as Us.
template <class T, class U, int Tiles, class Value>
__device__ void store_channels(U* y, const Value& value) {
  constexpr int width = Channels<T>::width;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int first = 0; first < 2 * Tiles; first += width) {
    Pack<U, width> pack;
#pragma unroll
    for (int i = 0; i < width; ++i) pack.at[i] = value(first + i);
    *reinterpret_cast<Pack<U, width>*>(y + Channels<T>::first(first / width, t)) = pack;
  }
}

/// Output (i, j) of a picture and, 8 columns on, the lane's second one, from one tile.
template <class T, int Tiles>
__device__ void store_places(const ThinPlaces& p, int picture, int i, int j,
                             const float (&acc)[Tiles][4], const float (&bias)[2 * Tiles],
                             const ThinForwardArguments<T>& arguments) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = j + 8 * half;
    if (i >= p.h_out || column >= p.w_out) continue;
    const int64_t at = ((int64_t{picture} * p.h_out + i) * p.w_out + column) * p.c_out;
    store_channels<T, T, Tiles>(arguments.y + at, [&](int c) {
      return from_f32<T>(arguments.activation(acc[c / 2][2 * half + c % 2] + bias[c]));
    });
  }
}

/// Window (i, j) of a picture from the tiles of its two rows. The winner is sought before the
/// activation, which no supported one reorders.
template <class T, int Tiles>
__device__ void store_windows(const ThinPlaces& p, int picture, int i, int j,
                              const float (&upper)[Tiles][4], const float (&lower)[Tiles][4],
                              const float (&bias)[2 * Tiles],
                              const ThinForwardArguments<T>& arguments) {
  if (i >= p.h_out / 2 || j >= p.w_out / 2) return;
  float values[2 * Tiles];
  uint8_t marks[2 * Tiles];
#pragma unroll
  for (int c = 0; c < 2 * Tiles; ++c) {
    const float window[4] = {upper[c / 2][c % 2], upper[c / 2][2 + c % 2], lower[c / 2][c % 2],
                             lower[c / 2][2 + c % 2]};
    float largest = window[0];
    uint8_t place = 0;
#pragma unroll
    for (int k = 1; k < 4; ++k) {
      // A NaN beats everything but an earlier NaN; of equals the first wins.
      if (!(window[k] <= largest) && largest == largest) {
        largest = window[k];
        place = static_cast<uint8_t>(k);
      }
    }
    values[c] = arguments.activation(largest + bias[c]);
    marks[c] = place;
  }
  const int64_t at = ((int64_t{picture} * (p.h_out / 2) + i) * (p.w_out / 2) + j) * p.c_out;
  store_channels<T, T, Tiles>(arguments.y + at, [&](int c) { return from_f32<T>(values[c]); });
  if (arguments.marks) {
    store_channels<T, uint8_t, Tiles>(arguments.marks + at, [&](int c) { return marks[c]; });
  }
}

}  // namespace whisker::cuda
