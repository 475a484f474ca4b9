// Loads and stores of Channels and of packs of rows, and the choice of packs.
#pragma once

#include "core/cuda/device_code/channels.h"
#include "core/cuda/device_code/packed.cuh"

#include <cstdint>
#include <utility>

namespace whisker::cuda {

__device__ inline float load(const Channels& x, int64_t i) {
  if (x.dtype == DType::bf16) return to_f32(static_cast<const bfloat_t*>(x.data)[i]);
  if (x.dtype == DType::f16) return to_f32(static_cast<const half_t*>(x.data)[i]);
  return static_cast<const float*>(x.data)[i];
}
/// V adjacent numbers from a multiple of V on, 16 bytes at a time where they are aligned: one by
/// one, those of all channels would be most of the load instructions of a pass over a few rows.
template <int V>
__device__ inline void load(const float* x, int64_t i, float (&values)[V]) {
  x += i;
  if (V % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0) {
#pragma unroll
    for (int v = 0; v + 4 <= V; v += 4) {
      const float4 four = *reinterpret_cast<const float4*>(x + v);
      values[v] = four.x, values[v + 1] = four.y, values[v + 2] = four.z, values[v + 3] = four.w;
    }
    return;
  }
#pragma unroll
  for (int v = 0; v < V; ++v) values[v] = x[v];
}
/// V adjacent elements with one branch on the dtype: a branch per element would serialise the
/// loads.
template <int V>
__device__ inline void load(const Channels& x, int64_t i, float (&values)[V]) {
  const auto read = [&](const auto* from) {
#pragma unroll
    for (int v = 0; v < V; ++v) values[v] = to_f32(from[i + v]);
  };
  if (x.dtype == DType::bf16) return read(static_cast<const bfloat_t*>(x.data));
  if (x.dtype == DType::f16) return read(static_cast<const half_t*>(x.data));
  load(static_cast<const float*>(x.data), i, values);
}
__device__ inline void store(const Channels& y, int64_t i, float value) {
  if (y.dtype == DType::f32) static_cast<float*>(y.data)[i] = value;
  if (y.dtype == DType::bf16) static_cast<bfloat_t*>(y.data)[i] = from_f32<bfloat_t>(value);
  if (y.dtype == DType::f16) static_cast<half_t*>(y.data)[i] = from_f32<half_t>(value);
}

/// One load; from a Pack the compiler would load 16-bit elements one at a time.
template <int V, class T>
__device__ inline Pack<T, V> load_pack(const T* x, int64_t at) {
  return unpack<T, V>(load_pack_bytes<V>(x, at));
}
/// One store; for 16-bit elements the compiler would store two at a time.
template <int V, class T>
__device__ inline void store_pack(T* y, int64_t at, const Pack<T, V>& pack) {
  if constexpr (sizeof(pack) >= 8) {
    using Bytes = PackBytes<T, V>;
    __stwb(reinterpret_cast<Bytes*>(y + at), reinterpret_cast<const Bytes&>(pack));
  } else {
    *reinterpret_cast<Pack<T, V>*>(y + at) = pack;
  }
}

/// A tensor that a pass reads where it is not null; its values are else undefined.
template <class T>
struct IfGiven {
  const T* data;
};
/// How a pass goes through its rows: those of a chunk in order, or those of a part of it reversed,
/// and then perhaps by loads that leave the L2 cache first.
enum class Walk { chunk, reversed, reversed_once };

/// A thread's packs of one row of N tensors.
template <class T, int V, int N>
struct RowPacks {
  PackBytes<T, V> of[N];

  /// Calls use(v, value of each tensor) for the pack's elements.
  template <class Use>
  __device__ void for_each(const Use& use) const {
    float values[N][V];
#pragma unroll
    for (int i = 0; i < N; ++i) to_floats<T>(of[i], values[i]);
    const auto call = [&]<int... I>(int v, std::integer_sequence<int, I...>) {
      use(v, values[I][v]...);
    };
#pragma unroll
    for (int v = 0; v < V; ++v) call(v, std::make_integer_sequence<int, N>());
  }
};
template <class T, int V, Walk walk = Walk::chunk>
__device__ void load_into(PackBytes<T, V>& bytes, const T* x, int64_t at) {
  bytes = walk == Walk::reversed_once ? load_pack_bytes_once<V>(x, at) : load_pack_bytes<V>(x, at);
}
template <class T, int V, Walk walk = Walk::chunk>
__device__ void load_into(PackBytes<T, V>& bytes, IfGiven<T> x, int64_t at) {
  if (x.data) load_into<T, V, walk>(bytes, x.data, at);
}
template <class T, int V, Walk walk = Walk::chunk, class... X>
__device__ RowPacks<T, V, sizeof...(X)> load_packs(int64_t at, X... x) {
  RowPacks<T, V, sizeof...(X)> row;
  int i = 0;
  (load_into<T, V, walk>(row.of[i++], x, at), ...);
  return row;
}

/// Calls run.operator()<T, V>() for rows of `channels` elements at `pointers` (may be null): in
/// packs of 16 bytes where channels and addresses allow, else in single elements.
template <class Run, class... P>
void with_packs(DType dtype, int64_t channels, const Run& run, const P*... pointers) {
  visit_real(dtype, [&]<class T>() {
    constexpr int v = pack_size<T>;
    const bool aligned = ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
    if (channels % v == 0 && aligned) {
      run.template operator()<T, v>();
    } else {
      run.template operator()<T, 1>();
    }
  });
}

}  // namespace whisker::cuda
