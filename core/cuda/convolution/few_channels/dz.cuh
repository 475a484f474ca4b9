// dz, the gradient of a convolution's result, computed where it is read: relu's, and with pooling
// only at each window's argmax. See Note [Few-channel convolutions].
#pragma once

#include "core/cuda/convolution/few_channels/few_channels_conv.cuh"
#include "core/cuda/device_code/async_copy.cuh"
#include "core/cuda/device_code/packed.cuh"

#include <cstdint>

namespace whisker::cuda {

/// The operands of dz.
template <class T>
struct GradientOperands {
  const T* dy;            // (N, h_out, w_out, c_out), or pooled: (N, h_out / 2, w_out / 2, c_out)
  const T* y;             // like dy: relu's result; null without it
  const uint8_t* argmax;  // like dy, pooled: see core/cuda/ops/launchers.h
};

/// Elements between adjacent positions of dz in shared memory, free of bank conflicts.
template <int Filters>
inline constexpr int dz_pitch = Filters + 8;

/// Elements of a tile's dz in shared memory; the patch follows it.
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
  constexpr int step = Items::step, width = Items::width;
  static_assert(block_threads % Items::packs == 0);
  // Packed words: single elements would need twice the registers.
  struct Loaded {
    uint4 dy = {}, y = {~0u, ~0u, ~0u, ~0u};  // NaN: relu's gradient passes
    PackBytes<uint8_t, width> argmax = {};
  };
  const Items items(p, tile);
  const auto load = [&](int item) {
    Loaded loaded;
    const int64_t at = items.offset(item);
    if (at < 0) return loaded;
    loaded.dy = load_pack_bytes<width>(from.dy, at);
    if (from.y) loaded.y = load_pack_bytes<width>(from.y, at);
    if (Pooled) loaded.argmax = load_pack_bytes<width>(from.argmax, at);
    return loaded;
  };
  for_each_item<Pooled ? 2 : 4>(items.count(), load, [&](int item, const Loaded& loaded) {
    uint4 bytes = loaded.dy;
    auto* const words = reinterpret_cast<uint32_t*>(&bytes);
    const auto* const of_y = reinterpret_cast<const uint32_t*>(&loaded.y);
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] &= not_below_or_zero<T>(of_y[i]);
    float values[width];
    to_floats<T>(bytes, values);
#pragma unroll
    for (int c = 0; c < width; ++c) {
      db[c] += values[c];
      if constexpr (sizeof(T) == 4) words[c] = __float_as_uint(mma_operand(values[c]));
    }
    const auto pack = unpack<T, width>(bytes);
#pragma unroll
    for (int position = 0; position < step * step; ++position) {
      const int at = (items.row(item) * step + position / 2) * p.tile_columns +
                     items.column(item) * step + position % 2;
      auto* const to =
          reinterpret_cast<Pack<T, width>*>(dz + at * dz_pitch<Filters> + Items::channel(item));
      *to = Pooled ? where_argmax(pack, unpack<uint8_t, width>(loaded.argmax), position) : pack;
    }
  });
}

}  // namespace whisker::cuda
