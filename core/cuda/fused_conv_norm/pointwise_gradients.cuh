// The gradients of the fused pointwise convolution: a kernel that adds up and one that finishes dx.
#pragma once

#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/mma.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/fused_conv_norm/pointwise_tiles.cuh"

#include <cstdint>
#include <utility>

namespace whisker::cuda::pointwise {

inline constexpr int most_backward_threads = 480;  // of 240 channels

/// Where a warp stands backward, among blockDim.x / 32: it has the group of 16 channels from
/// `first` on, in every `parts`-th step of 16 rows of a tile.
struct WarpChannels {
  int first, part, parts;
  int group, pair;  // of the lane, see Note [Fragments]

  __device__ explicit WarpChannels(int c) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int groups = (c + 15) / 16;
    first = warp % groups * 16;
    part = warp / groups;
    parts = static_cast<int>(blockDim.x) / 32 / groups;
    group = lane / 4;
    pair = lane % 4 * 2;
  }
};

/// Fragments of w for da = dy w: outputs 8 u + pair and the next of channels first + group + 8 h.
template <class T, int Units>
__device__ void load_weights(const T* w, const Tiles& t, const WarpChannels& own,
                             uint32_t (&to)[Units][2]) {
#pragma unroll
  for (int u = 0; u < Units; ++u) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int channel = own.first + own.group + 8 * h, output = 8 * u + own.pair;
      to[u][h] = 0;
      if (channel >= t.c || output >= t.c_out) continue;
      const T* const from = w + int64_t{output} * t.c + channel;
      to[u][h] = two_rounded<T>(to_f32(from[0]), to_f32(from[t.c]));
    }
  }
}

/// Zeros: columns that dy lacks stay so.
template <class T>
__device__ void clear(T* from, int elements) {
  for (int at = static_cast<int>(threadIdx.x) * pack; at < elements;
       at += static_cast<int>(blockDim.x) * pack) {
    *reinterpret_cast<uint4*>(from + at) = {};
  }
  __syncthreads();
}

/// partial (gridDim.x x parts; C C_out + 2 C): dw transposed, the sums of dz and those of dz (x -
/// mean), dz = f'(z) da. Channels are the rows of all fragments: x comes transposed, and a, da and
/// the accumulators of dw stay in registers. C_out is at most 8 Units.
template <class T, int Units>
__global__ void __launch_bounds__(most_backward_threads)
    gradient_sums_kernel(Tiles t, ImageNorm norm, const T* x, const T* w, const T* dy,
                         float* partial) {
  wait_for_previous();
  constexpr int dy_pitch = pitch_of(Units * 8);
  extern __shared__ uint4 memory[];
  const int pitch = pitch_of(t.c), lane = static_cast<int>(threadIdx.x) % 32;
  T* tile = reinterpret_cast<T*>(memory);  // two (tile_rows, pitch) of x, two (.., dy_pitch) of dy
  T* other_tile = tile + t.tile_rows * pitch;
  T* dy_tile = other_tile + t.tile_rows * pitch;
  T* other_dy_tile = dy_tile + t.tile_rows * dy_pitch;
  const TileCopy<T> x_copy(x, t.c, pitch, t), dy_copy(dy, t.c_out, dy_pitch, t);
  clear(dy_tile, 2 * t.tile_rows * dy_pitch);
  x_copy.start(blockIdx.x, tile);
  dy_copy.start(blockIdx.x, dy_tile);
  const WarpChannels own(t.c);
  uint32_t weights[Units][2];
  load_weights(w, t, own, weights);
  Factors<2> factors{};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int channel = own.first + own.group + 8 * h;
    if (channel < t.c) factors.set(h, norm, channel);
  }
  float dw[Units][4] = {}, sum[2] = {}, correlation[2] = {};
  for (int64_t at = blockIdx.x; at < t.count; at += gridDim.x) {
    wait_for_copies();
    __syncthreads();  // the other tiles are no longer read
    x_copy.start(at + gridDim.x, other_tile);
    dy_copy.start(at + gridDim.x, other_dy_tile);
#pragma unroll 1
    for (int step = own.part; step < t.tile_rows / 16; step += own.parts) {
      const T* const x_rows = tile + step * 16 * pitch + own.first;
      const T* const dy_rows = dy_tile + step * 16 * dy_pitch;
      uint32_t of_x[2][2], a[2][2];  // 8 rows each; channels group + 8 h
      load_transposed(x_rows + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8, of_x[0],
                      of_x[1]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float da[4] = {};
        const T* const b = dy_rows + (8 * half + own.group) * dy_pitch + own.pair;
#pragma unroll
        for (int u = 0; u + 1 < Units; u += 2) {
          multiply_add_two<T>(da, weights[u], weights[u + 1], word_at(b + 8 * u),
                              word_at(b + 8 * u + 8));
        }
        if constexpr (Units % 2 == 1) {
          multiply_add<T>(da, weights[Units - 1], {word_at(b + 8 * (Units - 1))});
        }
        with_curve<T>(norm.activation, [&](const auto& f) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            float in[2], dz[2];
            to_floats<T>(of_x[half][h], in);
            const float z[2] = {factors.z(h, in[0]), factors.z(h, in[1])};
            a[half][h] = f.value(z);
            to_floats<T>(f.gradient(z, a[half][h], two_rounded<T>(da[2 * h], da[2 * h + 1])), dz);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              sum[h] += dz[e];
              correlation[h] = fmaf(dz[e], in[e] - factors.center[h], correlation[h]);
            }
          }
        });
      }
#pragma unroll
      for (int u = 0; u < Units; ++u) {
        uint32_t b[2];
        load_transposed(dy_rows + lane % 16 * dy_pitch + 8 * u, b);
        multiply_add_two<T>(dw[u], a[0], a[1], b[0], b[1]);
      }
    }
    std::swap(tile, other_tile);
    std::swap(dy_tile, other_dy_tile);
  }
  const int weight_count = t.c * t.c_out;
  float* const slice =
      partial + (int64_t{blockIdx.x} * own.parts + own.part) * (int64_t{weight_count} + 2 * t.c);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int channel = own.first + own.group + 8 * h;
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2) {
      sum[h] += __shfl_xor_sync(all_lanes, sum[h], distance);
      correlation[h] += __shfl_xor_sync(all_lanes, correlation[h], distance);
    }
    if (channel >= t.c) continue;
#pragma unroll
    for (int u = 0; u < Units; ++u) {
      if (8 * u >= t.c_out) continue;
      *reinterpret_cast<float2*>(slice + channel * t.c_out + 8 * u + own.pair) = {dw[u][2 * h],
                                                                                  dw[u][2 * h + 1]};
    }
    if (own.pair > 0) continue;
    slice[weight_count + channel] = sum[h];
    slice[weight_count + t.c + channel] = correlation[h];
  }
}

/// dx = scale dz + (x - mean) slope + shift, f32 (2, C): slope, then shift. Warps compute a tile of
/// da into shared memory; threads finish it as they load x.
template <class T, int Units>
__global__ void __launch_bounds__(most_backward_threads)
    input_gradient_kernel(Tiles t, ImageNorm norm, const float* coefficients, const T* x,
                          const T* w, const T* dy, T* dx) {
  wait_for_previous();
  constexpr int dy_pitch = pitch_of(Units * 8);
  extern __shared__ uint4 memory[];
  const int pitch = pitch_of(t.c);
  T* tile = reinterpret_cast<T*>(memory);  // two of x, one of da, two of dy
  T* other_tile = tile + t.tile_rows * pitch;
  T* const da_tile = other_tile + t.tile_rows * pitch;
  T* dy_tile = da_tile + t.tile_rows * pitch;
  T* other_dy_tile = dy_tile + t.tile_rows * dy_pitch;
  const TileCopy<T> x_copy(x, t.c, pitch, t), dy_copy(dy, t.c_out, dy_pitch, t);
  clear(dy_tile, 2 * t.tile_rows * dy_pitch);
  const int64_t last = t.count - 1 - blockIdx.x;
  x_copy.start(last, tile);
  dy_copy.start(last, dy_tile);
  const WarpChannels own(t.c);
  uint32_t weights[Units][2];
  load_weights(w, t, own, weights);
  Factors<pack> factors;
  float slope[pack], shift[pack];
#pragma unroll
  for (int v = 0; v < pack; ++v) {
    const int channel = x_copy.column() + v;
    factors.set(v, norm, channel);
    slope[v] = coefficients[channel];
    shift[v] = coefficients[t.c + channel];
  }
  for (int64_t at = last; at >= 0; at -= gridDim.x) {
    wait_for_copies();
    __syncthreads();  // the other tiles and da are no longer read
    x_copy.start(at - gridDim.x, other_tile);
    dy_copy.start(at - gridDim.x, other_dy_tile);
#pragma unroll 1
    for (int step = own.part; step < t.tile_rows / 16; step += own.parts) {
      const T* const a = dy_tile + (step * 16 + own.group) * dy_pitch + own.pair;
      float da[2][4] = {};  // 8 channels each
#pragma unroll
      for (int u = 0; u < Units; u += 2) {
        const uint32_t a0[2] = {word_at(a + 8 * u), word_at(a + 8 * dy_pitch + 8 * u)};
        if (u + 1 < Units) {
          const uint32_t a1[2] = {word_at(a + 8 * u + 8), word_at(a + 8 * dy_pitch + 8 * u + 8)};
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            multiply_add_two<T>(da[h], a0, a1, weights[u][h], weights[(u + 1) % Units][h]);
          }
        } else {
#pragma unroll
          for (int h = 0; h < 2; ++h) multiply_add<T>(da[h], a0, {weights[u][h]});
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (own.first + 8 * h >= t.c) continue;
        T* const to = da_tile + (step * 16 + own.group) * pitch + own.first + 8 * h + own.pair;
        *reinterpret_cast<uint32_t*>(to) = two_rounded<T>(da[h][0], da[h][1]);
        *reinterpret_cast<uint32_t*>(to + 8 * pitch) = two_rounded<T>(da[h][2], da[h][3]);
      }
    }
    __syncthreads();
    with_curve<T>(norm.activation, [&](const auto& f) {
      x_copy.each([&](int row) {
        const int64_t of_all = at * t.tile_rows + row;
        if (of_all >= t.rows) return;
        const int of_tile = row * pitch + x_copy.column();
        uint4 words = load_pack_bytes<pack>(tile, of_tile);
        uint4 da = load_pack_bytes<pack>(da_tile, of_tile);
        for_words(da, [&](int v, uint32_t& word) {
          float in[2], dz[2];
          to_floats<T>(v == 0 ? words.x : v == 2 ? words.y : v == 4 ? words.z : words.w, in);
          const float z[2] = {factors.z(v, in[0]), factors.z(v + 1, in[1])};
          to_floats<T>(f.gradient(z, f.value(z), word), dz);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int c = v + e;
            dz[e] =
                two_terms(in[e] - factors.center[c], slope[c], dz[e], factors.scale[c], shift[c]);
          }
          word = two_rounded<T>(dz[0], dz[1]);
        });
        *reinterpret_cast<uint4*>(dx + of_all * t.c + x_copy.column()) = da;
      });
    });
    std::swap(tile, other_tile);
    std::swap(dy_tile, other_dy_tile);
  }
}

/// What gradient_sums_kernel adds up; null: not wanted.
template <class T>
struct StoreGradients {
  Tiles t;
  ImageNorm norm;
  T* dw;
  float *dgamma, *dbeta, *coefficients;

  __device__ void operator()(int at, float sum) const {
    const int weight_count = t.c * t.c_out;
    if (at < weight_count) {
      if (dw) dw[at % t.c_out * t.c + at / t.c_out] = from_f32<T>(sum);
      return;
    }
    const int channel = (at - weight_count) % t.c;
    const float inverse = norm.inv_std[channel];
    const float mean = norm.gamma[channel] * inverse * sum / static_cast<float>(t.rows);
    if (at < weight_count + t.c) {
      if (dbeta) dbeta[channel] = sum;
      coefficients[t.c + channel] = -mean;
    } else {
      if (dgamma) dgamma[channel] = sum * inverse;
      coefficients[channel] = -mean * inverse * inverse;
    }
  }
};

}  // namespace whisker::cuda::pointwise
