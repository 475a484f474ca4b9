// dz, the gradient of a convolution's result, computed where it is read: f'(y) dy, and with pooling
// only at each window's argmax. See Note [Few-channel convolutions].
#pragma once

#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/convolution/few_channels/patch.cuh"
#include "core/cuda/device_code/async_copy.cuh"
#include "core/cuda/device_code/packed.cuh"

#include <cstdint>

namespace whisker::cuda {

/// The operands of dz.
template <class T>
struct GradientOperands {
  const T* dy;            // (N, h_out, w_out, c_out), or pooled: (N, h_out / 2, w_out / 2, c_out)
  const T* y;             // like dy: f's result; null without an activation
  const uint8_t* argmax;  // like dy, pooled: see core/cuda/ops/launchers.h
  LeakyRelu activation;
};

template <class T>
GradientOperands<T> gradient_operands(ActivationSpec f, const ConvolutionOperands& operands) {
  return {.dy = static_cast<const T*>(operands.y),
          .y = f.kind == Activation::none ? nullptr : static_cast<const T*>(operands.output),
          .argmax = static_cast<const uint8_t*>(operands.argmax),
          .activation = leaky_relu_of(f)};
}

/// Adjacent channels of the operands as packed words: single elements would need twice the
/// registers.
template <class T, bool Pooled>
struct GradientPack {
  static constexpr int width = pack_size<T>;
  PackBytes<T, width> dy = {}, y = {};
  PackBytes<uint8_t, width> argmax = {};

  /// Loads from element `at` on.
  __device__ static GradientPack load(const GradientOperands<T>& from, int64_t at) {
    GradientPack pack;
    pack.dy = load_pack_bytes<width>(from.dy, at);
    if (from.y) pack.y = load_pack_bytes<width>(from.y, at);
    if (Pooled) pack.argmax = load_pack_bytes<width>(from.argmax, at);
    return pack;
  }
  /// f'(y) dy.
  __device__ void apply_slope(LeakyRelu f, float (&values)[width]) const {
    float of_y[width];
    to_floats<T>(y, of_y);
    to_floats<T>(dy, values);
#pragma unroll
    for (int c = 0; c < width; ++c) values[c] = f.gradient(of_y[c], values[c]);
  }
};

/// Elements between adjacent positions of dz in shared memory, free of bank conflicts.
template <int Filters>
inline constexpr int dz_pitch = Filters + 8;

/// Bytes of a tile's dz in shared memory; the patch follows it.
template <int Filters>
__host__ __device__ constexpr int dz_elements(const ConvTiling& p) {
  return p.tile_rows * p.tile_columns * dz_pitch<Filters>;
}

/// A tile of dy as packs of adjacent channels: item i is pack i % packs of the position (or
/// window) i / packs, counted row by row.
template <class T, int Filters, bool Pooled>
class GradientItems {
 public:
  static constexpr int width = pack_size<T>;
  static constexpr int packs = Filters / width;
  static constexpr int step = Pooled ? 2 : 1;  // outputs per element of dy

  __device__ GradientItems(const ConvTiling& p, const ConvTile& tile)
      : p_(p), tile_(tile), columns_(p.tile_columns / step), by_columns_(columns_) {}

  __device__ int count() const { return p_.tile_rows / step * columns_ * packs; }
  __device__ int row(int item) const { return by_columns_.quotient(item / packs); }
  __device__ int column(int item) const { return item / packs - row(item) * columns_; }
  __device__ static int channel(int item) { return item % packs * width; }
  /// Index of the pack in dy; negative outside dy, from c_out on, or past the last item.
  __device__ int64_t offset(int item) const {
    const int i = tile_.row / step + row(item), j = tile_.column / step + column(item);
    const int h = p_.h_out / step, w = p_.w_out / step;
    if (item >= count() || i >= h || j >= w || channel(item) >= p_.c_out) return -1;
    return ((int64_t{tile_.image} * h + i) * w + j) * p_.c_out + channel(item);
  }

 private:
  const ConvTiling& p_;
  const ConvTile& tile_;
  int columns_;
  SmallDivisor by_columns_;
};

/// Starts copies of dz = dy of `tile`; 0 outside the output.
template <class T, int Filters>
__device__ void copy_dz(const ConvTiling& p, const ConvTile& tile, const T* dy, T* dz) {
  using Items = GradientItems<T, Filters, false>;
  const Items items(p, tile);
  for (int item = static_cast<int>(threadIdx.x); item < items.count(); item += block_threads) {
    const int64_t at = items.offset(item);
    T* const to = dz + item / Items::packs * dz_pitch<Filters> + Items::channel(item);
    start_copy(to, at < 0 ? dy : dy + at, at >= 0);
  }
}

/// Writes dz of `tile`, 0 outside the output, and adds each thread's channels, the same in
/// all its items, to `db`.
template <class T, int Filters, bool Pooled>
__device__ void fill_dz(const ConvTiling& p, const ConvTile& tile, const GradientOperands<T>& from,
                        T* dz, float (&db)[pack_size<T>]) {
  using Items = GradientItems<T, Filters, Pooled>;
  using Loaded = GradientPack<T, Pooled>;
  constexpr int step = Items::step;
  static_assert(block_threads % Items::packs == 0);
  const Items items(p, tile);
  const auto load = [&](int item) {
    const int64_t at = items.offset(item);
    return at < 0 ? Loaded{} : Loaded::load(from, at);
  };
  for_each_item<Pooled ? 2 : 4>(items.count(), load, [&](int item, const Loaded& loaded) {
    float values[Items::width];
    loaded.apply_slope(from.activation, values);
#pragma unroll
    for (int c = 0; c < Items::width; ++c) db[c] += values[c];
    Pack<T, Items::width> dz_pack;
#pragma unroll
    for (int c = 0; c < Items::width; ++c) dz_pack.at[c] = operand(from_f32<T>(values[c]));
#pragma unroll
    for (int position = 0; position < step * step; ++position) {
      const int at = (items.row(item) * step + position / 2) * p.tile_columns +
                     items.column(item) * step + position % 2;
      auto* const to = reinterpret_cast<Pack<T, Items::width>*>(dz + at * dz_pitch<Filters> +
                                                                Items::channel(item));
      *to = Pooled ? where_argmax(dz_pack, unpack<uint8_t, Items::width>(loaded.argmax), position)
                   : dz_pack;
    }
  });
}

}  // namespace whisker::cuda
