// dz, the gradient by a convolution's result, made where it is read: f'(y) dy, and with pooling
// only at the windows' winners. See Note [Thin convolutions].
#pragma once

#include "core/cuda/convolution/thin_convolution.h"
#include "core/cuda/convolution/thin_patch.cuh"

#include <cstdint>
#include <type_traits>

namespace whisker::cuda {

/// What it is made of.
template <class T>
struct GradientOperands {
  const T* dy;           // (N, h_out, w_out, c_out), or pooled: (N, h_out / 2, w_out / 2, c_out)
  const T* y;            // like dy: f's result; null without a bend
  const uint8_t* marks;  // like dy: the winners' places, pooled
  Bend activation;
};

template <class T>
GradientOperands<T> gradient_operands(ActivationSpec f, const ConvolutionOperands& operands) {
  return {.dy = static_cast<const T*>(operands.y),
          .y = has_bend(f.kind) ? static_cast<const T*>(operands.output) : nullptr,
          .marks = static_cast<const uint8_t*>(operands.marks),
          .activation = bend_of(f)};
}

/// Neighbouring channels of the operands, as whole words: elements of their own would take twice
/// the registers.
template <class T, bool Pooled>
struct GradientPack {
  static constexpr int width = pack_size<T>;
  uint4 dy = {}, y = {};
  std::conditional_t<width == 8, uint2, uint32_t> marks = {};

  /// Of `from`, from element `at` on.
  __device__ static GradientPack load(const GradientOperands<T>& from, int64_t at) {
    GradientPack pack;
    pack.dy = *reinterpret_cast<const uint4*>(from.dy + at);
    if (from.y) pack.y = *reinterpret_cast<const uint4*>(from.y + at);
    if (Pooled) pack.marks = *reinterpret_cast<const decltype(marks)*>(from.marks + at);
    return pack;
  }
  /// f'(y) dy.
  __device__ void bend(Bend f, float (&values)[width]) const {
#pragma unroll
    for (int c = 0; c < width; ++c) {
      values[c] = f.gradient(to_f32(reinterpret_cast<const Pack<T, width>&>(y).at[c]),
                             to_f32(reinterpret_cast<const Pack<T, width>&>(dy).at[c]));
    }
  }
  /// dz of those `values`: pooled, at `place` of the window.
  __device__ Pack<T, width> at_place(int place, const float (&values)[width]) const {
    Pack<T, width> dz;
#pragma unroll
    for (int c = 0; c < width; ++c) {
      const bool here =
          !Pooled || reinterpret_cast<const Pack<uint8_t, width>&>(marks).at[c] == place;
      dz.at[c] = operand(from_f32<T>(here ? values[c] : 0.0f));
    }
    return dz;
  }
};

/// Elements between neighbouring places of dz in shared memory: no bank conflicts in either reader.
template <int Filters>
inline constexpr int dz_pitch = Filters + 8;

/// Of a tile's dz in shared memory; the patch lies behind it.
template <int Filters>
__host__ __device__ constexpr int dz_elements(const ThinPlaces& p) {
  return p.tile_rows * p.tile_columns * dz_pitch<Filters>;
}

/// A tile of dy as packs of neighbouring channels: item i is pack i % packs of the place (or
/// window) i / packs, counted row by row.
template <class T, int Filters, bool Pooled>
class GradientItems {
 public:
  static constexpr int width = pack_size<T>;
  static constexpr int packs = Filters / width;
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
    return ((int64_t{tile_.picture} * h + i) * w + j) * Filters + channel(item);
  }

 private:
  const ThinPlaces& p_;
  const ThinTile& tile_;
  int columns_;
  SmallDivisor by_columns_;
};

/// Writes dz of `tile` where it is dy; places outside the output are 0.
template <class T, int Filters>
__device__ void copy_dz(const ThinPlaces& p, const ThinTile& tile, const T* dy, T* dz) {
  using Items = GradientItems<T, Filters, false>;
  const Items items(p, tile);
  const auto load = [&](int item) {
    const int64_t at = items.offset(item);
    return at < 0 ? uint4{} : *reinterpret_cast<const uint4*>(dy + at);
  };
  for_each_item<8>(items.count(), load, [&](int item, uint4 loaded) {
    const int place = item / Items::packs;
    *reinterpret_cast<uint4*>(dz + place * dz_pitch<Filters> + Items::channel(item)) = loaded;
  });
}

/// Writes dz of `tile`, 0 outside the output, and adds each thread's channels to `db`; they are the
/// same in all its items.
template <class T, int Filters, bool Pooled>
__device__ void fill_dz(const ThinPlaces& p, const ThinTile& tile, const GradientOperands<T>& from,
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
    loaded.bend(from.activation, values);
#pragma unroll
    for (int c = 0; c < Items::width; ++c) db[c] += values[c];
#pragma unroll
    for (int place = 0; place < step * step; ++place) {
      const int at = (items.row(item) * step + place / 2) * p.tile_columns +
                     items.column(item) * step + place % 2;
      *reinterpret_cast<Pack<T, Items::width>*>(
          dz + at * dz_pitch<Filters> + Items::channel(item)) = loaded.at_place(place, values);
    }
  });
}

/// Fills the patch of `tile` with dz; `p` is of the turned pass, whose picture dz is.
template <class S, bool Pooled, class T>
__device__ void fill_dz_patch(const ThinPlaces& p, const ThinTile& tile,
                              const GradientOperands<T>& from, T* patch) {
  using Items = PatchItems<T, S>;
  using Loaded = GradientPack<T, Pooled>;
  constexpr int step = Pooled ? 2 : 1;
  const int h = p.h / step, w = p.w / step;  // of dy
  const Items items(p, tile);
  const auto load = [&](int item) {
    const int i = items.row(item), j = items.column(item);
    const bool inside = i >= 0 && i < h * step && j >= 0 && j < w * step;
    if (item >= items.count() || !inside) return Loaded{};
    const int64_t pixel = (int64_t{tile.picture} * h + i / step) * w + j / step;
    return Loaded::load(from, pixel * S::channels + items.channel(item));
  };
  for_each_item<3>(items.count(), load, [&](int item, const Loaded& loaded) {
    float values[Items::width];
    loaded.bend(from.activation, values);
    const int place = items.row(item) % 2 * 2 + items.column(item) % 2;
    *reinterpret_cast<Pack<T, Items::width>*>(patch + items.offset(item)) =
        loaded.at_place(place, values);
  });
}

}  // namespace whisker::cuda
