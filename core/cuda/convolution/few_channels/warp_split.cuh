// How the warps of a block split the gemm of the few-channel weights' gradient: see weights.cu.
#pragma once

#include "core/cuda/convolution/few_channels/dz.cuh"
#include "core/cuda/device_code/mma.cuh"

#include <cstdint>

namespace whisker::cuda {

/// A of two 16-channel tiles over 16 positions of 16-bit dz, from its first position and `channel`
/// on.
template <int Filters, class T>
__device__ void load_positions_of_gradient(const T* dz, int channel, uint32_t (&a0)[2][2],
                                           uint32_t (&a1)[2][2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int position = lane % 8 + lane / 16 * 8;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    load_transposed(dz + position * dz_pitch<Filters> + channel + 16 * m + lane / 8 % 2 * 8, a0[m],
                    a1[m]);
  }
}

/// A of two 16-channel tiles over 8 positions of f32 dz, from the lane's first position and
/// channel.
template <int Filters>
__device__ void load_positions_of_gradient(const float* dz, uint32_t (&a)[2][4]) {
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    const float* from = dz + 16 * m;
    a[m][0] = __float_as_uint(from[0]);
    a[m][1] = __float_as_uint(from[8]);
    a[m][2] = __float_as_uint(from[4 * dz_pitch<Filters>]);
    a[m][3] = __float_as_uint(from[4 * dz_pitch<Filters> + 8]);
  }
}

/// Each warp has two 16-channel tiles and some kernel rows; warps with the same ones split the
/// positions.
template <class T, class S, int Filters>
struct RowSplit {
  static constexpr int rows = S::kernel <= 3 ? S::kernel : 2;
  static constexpr int row_groups = (S::kernel + rows - 1) / rows;
  static constexpr int channel_groups = Filters / 32;
  static constexpr int groups = row_groups * channel_groups;
  static constexpr int position_groups = block_warps / groups;
  static constexpr int tiles = 2 * rows * S::units;  // of sums

  __device__ static int channel(int group) { return group % channel_groups * 32; }
  __device__ static int kernel_row(int group) { return group / channel_groups * rows; }

  /// Index of a lane's sum i in (Filters, kernel, kernel C); -1 for padding.
  __device__ static int weight_of(int group, int i) {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const int row = kernel_row(group) + i / 4 / S::units % rows;
    const int tap = 8 * (i / 4 % S::units) + 2 * t + i % 2;
    const int k = channel(group) + 16 * (i / 4 / S::units / rows) + g + i / 2 % 2 * 8;
    return row < S::kernel && tap < S::row_taps ? (k * S::kernel + row) * S::row_taps + tap : -1;
  }

  /// acc += dz^T x patch, over 16 positions of one row: `dz` and `patch` point at the first one and
  /// its taps.
  __device__ static void multiply(const T* dz, const T* patch, int pitch, int group,
                                  float (&acc)[tiles][4]) {
    const int channel = RowSplit::channel(group), kernel_row = RowSplit::kernel_row(group);
    constexpr int between = S::stride * S::channels;  // taps of neighbouring positions
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4, t = lane % 4;
    if constexpr (sizeof(T) == 2) {
      uint32_t a0[2][2], a1[2][2];
      load_positions_of_gradient<Filters>(dz, channel, a0, a1);
#pragma unroll
      for (int p = 0; p < rows; ++p) {
        if (kernel_row + p >= S::kernel) break;
        const T* taps = patch + (kernel_row + p) * pitch + 2 * t * between + g;
#pragma unroll
        for (int unit = 0; unit < S::units; ++unit) {
          uint32_t b[2];
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const T* from = taps + 8 * half * between + 8 * unit;
            const Pack<T, 2> pair{from[0], from[between]};
            b[half] = reinterpret_cast<const uint32_t&>(pair);
          }
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            multiply_add_two<T>(acc[(m * rows + p) * S::units + unit], a0[m], a1[m], b[0], b[1]);
          }
        }
      }
    } else {
#pragma unroll
      for (int k = 0; k < 16; k += 8) {
        uint32_t a[2][4];
        load_positions_of_gradient<Filters>(dz + (k + t) * dz_pitch<Filters> + channel + g, a);
#pragma unroll
        for (int p = 0; p < rows; ++p) {
          if (kernel_row + p >= S::kernel) break;
          const T* taps = patch + (kernel_row + p) * pitch + (k + t) * between + g;
#pragma unroll
          for (int unit = 0; unit < S::units; ++unit) {
            const uint32_t b[2] = {__float_as_uint(taps[8 * unit]),
                                   __float_as_uint(taps[8 * unit + 4 * between])};
#pragma unroll
            for (int m = 0; m < 2; ++m) {
              multiply_add<T>(acc[(m * rows + p) * S::units + unit], a[m], b);
            }
          }
        }
      }
    }
  }
};

}  // namespace whisker::cuda
