// Element types on the device, dispatch on them, and 16-byte packs. Kernels compute in f32 and
// round when they store.
#pragma once

#include "core/cuda/runtime/check.h"
#include "core/tensor/dtype_name.h"

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace whisker::cuda {

using half_t = __half;
using bfloat_t = __nv_bfloat16;

__device__ inline float to_f32(float x) {
  return x;
}
__device__ inline float to_f32(half_t x) {
  return __half2float(x);
}
__device__ inline float to_f32(bfloat_t x) {
  return __bfloat162float(x);
}

/// x rounded to T (nearest even).
template <class T>
__device__ inline T from_f32(float x);
template <>
__device__ inline float from_f32<float>(float x) {
  return x;
}
template <>
__device__ inline half_t from_f32<half_t>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline bfloat_t from_f32<bfloat_t>(float x) {
  return __float2bfloat16_rn(x);
}

/// Calls fn.operator()<T>() with the device type of f32, bf16 or f16.
template <class Fn>
void visit_real(DType dtype, Fn&& fn) {
  if (dtype == DType::f32) return fn.template operator()<float>();
  if (dtype == DType::bf16) return fn.template operator()<bfloat_t>();
  if (dtype == DType::f16) return fn.template operator()<half_t>();
  fail_dtype(dtype);
}

/// Calls fn.operator()<T>() with the unsigned type of 1, 2, 4 or 8 `bytes`.
template <class Fn>
void visit_bytes(size_t bytes, Fn&& fn) {
  if (bytes == 1) fn.template operator()<uint8_t>();
  if (bytes == 2) fn.template operator()<uint16_t>();
  if (bytes == 4) fn.template operator()<uint32_t>();
  if (bytes == 8) fn.template operator()<uint64_t>();
}

/// N elements that are loaded and stored together; aligned to its size.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};
/// Elements of T in 16 bytes.
template <class T>
inline constexpr int pack_size = 16 / static_cast<int>(sizeof(T));

}  // namespace whisker::cuda
