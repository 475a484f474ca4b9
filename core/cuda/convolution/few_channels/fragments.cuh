// The weights of the few-channel forward kernel as fragments (Note [Fragments] in
// core/cuda/device_code/mma.cuh), and the output channels of a lane.
#pragma once

#include "core/cuda/convolution/few_channels/few_channels_conv.cuh"
#include "core/cuda/device_code/mma.cuh"

#include <cstdint>

namespace whisker::cuda {

/// Lane (g, t) has columns 2t and 2t + 1 of every tile of 8. They are the channels of its packs of
/// 8 (4 tiles), and the packs of the four t are adjacent, so that a store fills whole sectors.
///
/// The output channel of column `column` (0..7) of tile `tile`.
__device__ inline int channel_of_column(int tile, int column) {
  return tile / 4 * 32 + column / 2 * 8 + tile % 4 * 2 + column % 2;
}
/// The first channel of pack `pack` of the lanes with `t`.
__device__ inline int first_of_pack(int pack, int t) {
  return (4 * pack + t) * 8;
}

/// Registers of all fragments of a block's weights.
template <class S, int Tiles>
inline constexpr int fragment_registers = S::kernel* S::units* Tiles * 32;

/// w (c_out, kernel, kernel, C) as B fragments: [kernel row][unit][lane][tile]; zeros from c_out
/// on.
template <class T, class S, int Tiles>
__device__ void fill_weights(const T* w, int c_out, uint32_t* fragments) {
  for (int i = static_cast<int>(threadIdx.x); i < fragment_registers<S, Tiles>;
       i += block_threads) {
    const int g = i / Tiles % 32 / 4, t = i / Tiles % 4;
    const int unit = i / (32 * Tiles) % S::units, p = i / (32 * Tiles * S::units);
    const int channel = channel_of_column(i % Tiles, g);
    const int taps = channel < c_out ? S::row_taps : 0;
    const T* row = w + (channel * S::kernel + p) * S::row_taps;
    const auto tap = [&](int k) { return k < taps ? row[k] : from_f32<T>(0.0f); };
    const Pack<T, 2> pair{tap(8 * unit + 2 * t), tap(8 * unit + 2 * t + 1)};
    fragments[i] = reinterpret_cast<const uint32_t&>(pair);
  }
}

}  // namespace whisker::cuda
