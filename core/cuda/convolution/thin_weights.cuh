// The parts of the thin weight-gradient kernel: how warps share it, dz as it is read, the product,
// and the sum over warps. See thin_weights.cu and Note [Thin convolutions].
#pragma once

#include "core/cuda/convolution/thin_convolution.cuh"
#include "core/cuda/device/launch.h"

namespace whisker::cuda {

template <class T>
struct ThinWeightsArguments {
  const T* x;            // (N,H,W,C)
  const T* dy;           // (N, h_out, w_out, c_out), or pooled: (N, h_out / 2, w_out / 2, c_out)
  const T* y;            // like dy: f's result; null without a bend
  const uint8_t* marks;  // like dy, pooled
  Bend activation;
  bool wants_db;
  float* sums;  // (blocks, c_out kernel kernel C + c_out)
};

/// How a block's warps share the product: each has two 16-channel tiles and some kernel rows; those
/// that have the same share the places.
template <class S, int Channels>
struct Split {
  static constexpr int kernel_rows = S::kernel <= 3 ? S::kernel : 2;
  static constexpr int row_groups = (S::kernel + kernel_rows - 1) / kernel_rows;
  static constexpr int channel_groups = Channels / 32;
  static constexpr int groups = row_groups * channel_groups;
  static constexpr int place_groups = block_threads / 32 / groups;
  static_assert(place_groups >= 1);
};

/// Elements between neighbouring places of dz in shared memory: no bank conflicts in either reader.
template <int Channels>
inline constexpr int dz_pitch = Channels + 8;

/// Of a tile's dz in shared memory; the patch lies behind it.
template <int Channels>
__host__ __device__ constexpr int dz_elements(const ThinPlaces& p) {
  return p.tile_rows * p.tile_columns * dz_pitch<Channels>;
}

/// A tile of dy as packs of neighbouring channels: item i is pack i % packs of the place (or
/// window) i / packs, counted row by row.
template <class T, int Channels, bool Pooled>
class GradientItems {
 public:
  static constexpr int width = pack_size<T>;
  static constexpr int packs = Channels / width;
  static constexpr int step = Pooled ? 2 : 1;  // outputs per element of dy

  __device__ GradientItems(const ThinPlaces& p, const ThinTile& tile)
      : p_(p), tile_(tile), columns_(p.tile_columns / step), by_columns_(columns_) {}

  __device__ int count() const { return p_.tile_rows / step * columns_ * packs; }
  __device__ int row(int item) const { return by_columns_.quotient(item / packs); }
  __device__ int column(int item) const { return item / packs - row(item) * columns_; }
  __device__ static int channel(int item) { return item % packs * width; }
  /// Where the pack starts in dy; negative when it is outside, or no item.
  __device__ int64_t offset(int item) const {
    const int i = tile_.row / step + row(item), j = tile_.column / step + column(item);
    const int h = p_.h_out / step, w = p_.w_out / step;
    if (item >= count() || i >= h || j >= w) return -1;
    return ((int64_t{tile_.picture} * h + i) * w + j) * Channels + channel(item);
  }

 private:
  const ThinPlaces& p_;
  const ThinTile& tile_;
  int columns_;
  SmallDivisor by_columns_;
};

/// Writes dy of `tile`, places outside the output 0.
template <class T, int Channels>
__device__ void copy_gradient(const ThinPlaces& p, const ThinTile& tile, const T* dy, T* dz) {
  constexpr int together = 8;  // loads under way before the first is used
  const GradientItems<T, Channels, false> items(p, tile);
  for (int first = static_cast<int>(threadIdx.x); first < items.count();
       first += together * block_threads) {
    uint4 packs[together];
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int64_t at = items.offset(first + i * block_threads);
      packs[i] = at < 0 ? uint4{} : *reinterpret_cast<const uint4*>(dy + at);
    }
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int item = first + i * block_threads;
      if (item >= items.count()) break;
      const int place = item / items.packs;
      *reinterpret_cast<uint4*>(dz + place * dz_pitch<Channels> + items.channel(item)) = packs[i];
    }
  }
}

/// Writes dz of `tile`, places outside the output 0, and adds each thread's channels to `db`.
template <class T, int Channels, bool Pooled>
__device__ void fill_gradient(const ThinPlaces& p, const ThinTile& tile,
                              const ThinWeightsArguments<T>& arguments, T* dz,
                              float (&db)[pack_size<T>]) {
  using Items = GradientItems<T, Channels, Pooled>;
  constexpr int width = Items::width, step = Items::step;
  const Items items(p, tile);
  struct Loaded {  // whole words: elements of their own would take twice the registers
    uint4 dy, y;
    std::conditional_t<width == 8, uint2, uint32_t> marks;
  };
  const auto load = [&](int item) {
    Loaded loaded{};
    const int64_t at = items.offset(item);
    if (at < 0) return loaded;
    loaded.dy = *reinterpret_cast<const uint4*>(arguments.dy + at);
    if (arguments.y) loaded.y = *reinterpret_cast<const uint4*>(arguments.y + at);
    if (Pooled) {
      loaded.marks = *reinterpret_cast<const decltype(loaded.marks)*>(arguments.marks + at);
    }
    return loaded;
  };
  const auto store = [&](int item, const Loaded& loaded) {
    const auto& dy = reinterpret_cast<const Pack<T, width>&>(loaded.dy);
    const auto& y = reinterpret_cast<const Pack<T, width>&>(loaded.y);
    const auto& marks = reinterpret_cast<const Pack<uint8_t, width>&>(loaded.marks);
    float values[width];
#pragma unroll
    for (int c = 0; c < width; ++c) {
      values[c] = arguments.activation.gradient(to_f32(y.at[c]), to_f32(dy.at[c]));
      db[c] += values[c];
    }
#pragma unroll
    for (int place = 0; place < step * step; ++place) {
      Pack<T, width> pack;
#pragma unroll
      for (int c = 0; c < width; ++c) {
        const bool here = !Pooled || marks.at[c] == place;
        pack.at[c] = operand(from_f32<T>(here ? values[c] : 0.0f));
      }
      const int at = (items.row(item) * step + place / 2) * p.tile_columns +
                     items.column(item) * step + place % 2;
      *reinterpret_cast<Pack<T, width>*>(dz + at * dz_pitch<Channels> + items.channel(item)) = pack;
    }
  };
  // block_threads is a multiple of packs: a thread always has the same channels. All loads of some
  // items are under way before the first is used.
  constexpr int together = Pooled ? 2 : 4;
  for (int first = static_cast<int>(threadIdx.x); first < items.count();
       first += together * block_threads) {
    Loaded loaded[together];
#pragma unroll
    for (int i = 0; i < together; ++i) loaded[i] = load(first + i * block_threads);
#pragma unroll
    for (int i = 0; i < together; ++i) {
      if (first + i * block_threads < items.count()) store(first + i * block_threads, loaded[i]);
    }
  }
}

/// acc += dz^T (two tiles of 16 channels from `channel`) x patch, over 16 places of one row: `dz`
/// and `patch` point at the first one and its taps. Rows of the kernel from `kernel_row`.
template <class T, class S, int Channels>
__device__ void multiply_gradient(const T* dz, const T* patch, int pitch, int channel,
                                  int kernel_row,
                                  float (&acc)[2 * Split<S, Channels>::kernel_rows * S::units][4]) {
  constexpr int rows = Split<S, Channels>::kernel_rows;
  constexpr int between = S::stride * S::channels;  // taps of neighbouring places
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  if constexpr (sizeof(T) == 2) {
    uint32_t a0[2][2], a1[2][2];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const int place = lane % 8 + lane / 16 * 8;
      load_transposed(dz + place * dz_pitch<Channels> + channel + 16 * m + lane / 8 % 2 * 8, a0[m],
                      a1[m]);
    }
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
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const T* from = dz + (k + t) * dz_pitch<Channels> + channel + 16 * m + g;
        a[m][0] = __float_as_uint(from[0]);
        a[m][1] = __float_as_uint(from[8]);
        a[m][2] = __float_as_uint(from[4 * dz_pitch<Channels>]);
        a[m][3] = __float_as_uint(from[4 * dz_pitch<Channels> + 8]);
      }
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

/// Adds the accumulators of the warps that share places to those of the first one, in order.
template <int Tiles>
__device__ void add_warps(int place_groups, int groups, float (&acc)[Tiles][4], float* memory) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int share = warp / groups, group = warp % groups;
  for (int half = place_groups / 2; half > 0; half /= 2) {
    __syncthreads();
    if (share >= half && share < 2 * half) {
      float* const to = memory + ((share - half) * groups + group) * Tiles * 4 * 32 + lane;
#pragma unroll
      for (int i = 0; i < 4 * Tiles; ++i) to[i * 32] = acc[i / 4][i % 4];
    }
    __syncthreads();
    if (share < half) {
      const float* const from = memory + (share * groups + group) * Tiles * 4 * 32 + lane;
#pragma unroll
      for (int i = 0; i < 4 * Tiles; ++i) acc[i / 4][i % 4] += from[i * 32];
    }
  }
}

}  // namespace whisker::cuda
