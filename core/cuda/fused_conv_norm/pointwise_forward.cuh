// The forward kernel of the fused pointwise convolution.
#pragma once

#include "core/cuda/convolution/add_slices.cuh"
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/mma.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/fused_conv_norm/pointwise_tiles.cuh"

#include <cstdint>

namespace whisker::cuda::pointwise {

inline constexpr int forward_threads = 256;

/// y, and partial (gridDim.x times the warps side by side along the rows; C_out): the sums of y and
/// of its squares. A block normalises a tile into shared memory, where w lies; a warp computes 16
/// rows by Outputs x 8 outputs at a time. f32 adds deviations from the thread's first y, against
/// cancellation; f64 takes them together.
template <class T, int Outputs>
__global__ void __launch_bounds__(forward_threads, 2)
    forward_kernel(Tiles t, ImageNorm norm, const T* x, const T* w, T* y, double2* partial) {
  wait_for_previous();
  extern __shared__ uint4 memory[];
  const int pitch = pitch_of(t.c), packs = t.c / pack;
  const int parts = (t.c_out / 8 + Outputs - 1) / Outputs;  // warps side by side along the outputs
  T* const weights = reinterpret_cast<T*>(memory);          // (parts Outputs 8, pitch)
  T* tile = weights + parts * Outputs * 8 * pitch;          // two (tile_rows, pitch)
  T* other_tile = tile + t.tile_rows * pitch;
  const TileCopy<T> copy(x, t.c, pitch, t);
  const int64_t last = t.count - 1 - blockIdx.x;
  copy.start(last, tile);
  for (int at = static_cast<int>(threadIdx.x); at < parts * Outputs * 8 * packs;
       at += forward_threads) {
    const int output = at / packs, column = at % packs * pack;
    uint4 bytes{};
    if (output < t.c_out) bytes = load_pack_bytes<pack>(w, int64_t{output} * t.c + column);
    *reinterpret_cast<uint4*>(weights + output * pitch + column) = bytes;
  }
  Factors<pack> factors;
#pragma unroll
  for (int v = 0; v < pack; ++v) factors.set(v, norm, copy.column() + v);

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int group = lane / 4, pair = lane % 4 * 2;
  const int part = warp % parts, slot = warp / parts, slots = forward_threads / 32 / parts;
  const int first = part * Outputs * 8 + pair;  // output
  float sums[Outputs][2] = {}, squares[Outputs][2] = {};
  uint32_t shifts[Outputs] = {};  // words of y
  int count = 0;                  // of rows
  for (int64_t at = last; at >= 0; at -= gridDim.x) {
    wait_for_copies();
    with_curve<T>(norm.activation, [&](const auto& f) {
      copy.each([&](int row) {
        auto* const to = reinterpret_cast<uint4*>(tile + row * pitch + copy.column());
        uint4 words = *to;
        for_words(words, [&](int v, uint32_t& word) {
          float in[2];
          to_floats<T>(word, in);
          word = f.value({factors.z(v, in[0]), factors.z(v + 1, in[1])});
        });
        *to = words;
      });
    });
    __syncthreads();  // the other tile is no longer read
    copy.start(at - gridDim.x, other_tile);
#pragma unroll 1
    for (int step = slot; slot < slots && step < t.tile_rows / 16; step += slots) {
      float acc[Outputs][4] = {};
      const T* a = tile + (step * 16 + group) * pitch + pair;
      const T* b = weights + (part * Outputs * 8 + group) * pitch + pair;
#pragma unroll 2
      for (int unit = 0; unit + 1 < packs; unit += 2, a += 16, b += 16) {
        const uint32_t a0[2] = {word_at(a), word_at(a + 8 * pitch)};
        const uint32_t a1[2] = {word_at(a + 8), word_at(a + 8 * pitch + 8)};
#pragma unroll
        for (int j = 0; j < Outputs; ++j) {
          multiply_add_two<T>(acc[j], a0, a1, word_at(b + j * 8 * pitch),
                              word_at(b + j * 8 * pitch + 8));
        }
      }
      if (packs % 2 == 1) {
        const uint32_t a0[2] = {word_at(a), word_at(a + 8 * pitch)};
#pragma unroll
        for (int j = 0; j < Outputs; ++j) multiply_add<T>(acc[j], a0, {word_at(b + j * 8 * pitch)});
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t row = at * t.tile_rows + step * 16 + group + 8 * half;
        if (row >= t.rows) continue;
#pragma unroll
        for (int j = 0; j < Outputs; ++j) {
          if (first + j * 8 >= t.c_out) continue;
          const uint32_t word = two_rounded<T>(acc[j][2 * half], acc[j][2 * half + 1]);
          *reinterpret_cast<uint32_t*>(y + row * t.c_out + first + j * 8) = word;
          if (count == 0) shifts[j] = word;
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float deviation = element<T>(word, e) - element<T>(shifts[j], e);
            sums[j][e] += deviation;
            squares[j][e] = fmaf(deviation, deviation, squares[j][e]);
          }
        }
        ++count;
      }
    }
    exchange(tile, other_tile);
  }
  double2* const slice = partial + (int64_t{blockIdx.x} * slots + slot) * t.c_out;
#pragma unroll
  for (int j = 0; j < Outputs; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      double2 total = unshifted_sums(count, element<T>(shifts[j], e), sums[j][e], squares[j][e]);
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) {
        total.x += __shfl_xor_sync(all_lanes, total.x, distance);
        total.y += __shfl_xor_sync(all_lanes, total.y, distance);
      }
      const int output = first + j * 8 + e;
      if (group == 0 && slot < slots && output < t.c_out) slice[output] = total;
    }
  }
}

}  // namespace whisker::cuda::pointwise
