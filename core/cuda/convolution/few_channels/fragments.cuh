// The weights of the few-channel forward kernel as fragments (Note [Fragments] in
// core/cuda/device_code/mma.cuh), and the output channels of a lane.
#pragma once

#include "core/cuda/convolution/few_channels/few_channels_conv.cuh"
#include "core/cuda/device_code/mma.cuh"

#include <cstdint>

namespace whisker::cuda {

/// Lane (g, t) has columns 2t and 2t + 1 of every tile of 8. They are the channels of its packs,
/// and the packs of the four t are adjacent, so that a store fills whole sectors.
template <class T>
struct LaneChannels {
  static constexpr int width = pack_size<T>;  // channels of a pack: width / 2 tiles

  /// The output channel of column `column` (0..7) of tile `tile`.
  __device__ static int of(int tile, int column) {
    return tile / (width / 2) * (4 * width) + column / 2 * width + tile % (width / 2) * 2 +
           column % 2;
  }
  /// The first channel of pack `pack` of the lanes with `t`.
  __device__ static int first(int pack, int t) { return (4 * pack + t) * width; }
};

/// Registers of all fragments of a block's weights.
template <class T, class S, int Tiles>
inline constexpr int fragment_registers = S::kernel* S::units* b_registers<T>* Tiles * 32;

/// w (c_out, kernel, kernel, C) as B fragments: [kernel row][unit][register][lane][tile]; zeros
/// from c_out on.
template <class T, class S, int Tiles>
__device__ void fill_weights(const T* w, int c_out, uint32_t* fragments) {
  for (int i = static_cast<int>(threadIdx.x); i < fragment_registers<T, S, Tiles>;
       i += block_threads) {
    const int g = i / Tiles % 32 / 4, t = i / Tiles % 4;
    const int tile = i % Tiles;
    const int reg = i / (32 * Tiles) % b_registers<T>;
    const int unit = i / (32 * Tiles * b_registers<T>) % S::units;
    const int p = i / (32 * Tiles * b_registers<T> * S::units);
    const int channel = LaneChannels<T>::of(tile, g);
    const int taps = channel < c_out ? S::row_taps : 0;
    const T* row = w + (channel * S::kernel + p) * S::row_taps;
    const auto tap = [&](int k) { return k < taps ? mma_operand(row[k]) : from_f32<T>(0.0f); };
    if constexpr (sizeof(T) == 4) {
      fragments[i] = __float_as_uint(tap(8 * unit + t + 4 * reg));
    } else {
      const Pack<T, 2> pair{tap(8 * unit + 2 * t), tap(8 * unit + 2 * t + 1)};
      fragments[i] = reinterpret_cast<const uint32_t&>(pair);
    }
  }
}

}  // namespace whisker::cuda
