// Elements of a dtype known at run time, for conversions and comparisons that are too rare for a
// kernel per pair of dtypes. The rules are those of core/tensor/convert.h.
#pragma once

#include "core/cuda/device_code/types.cuh"

#include <cstdint>
#include <limits>

namespace whisker::cuda {

/// Integers and booleans are held exactly in `integer`, floating types in `real`.
struct Number {
  double real = 0;
  int64_t integer = 0;
};

__device__ inline Number load_number(DType dtype, const void* x, int64_t i) {
  switch (dtype) {
    case DType::f32:
      return {.real = static_cast<const float*>(x)[i]};
    case DType::f64:
      return {.real = static_cast<const double*>(x)[i]};
    case DType::f16:
      return {.real = to_f32(static_cast<const half_t*>(x)[i])};
    case DType::bf16:
      return {.real = to_f32(static_cast<const bfloat_t*>(x)[i])};
    case DType::i64:
      return {.integer = static_cast<const int64_t*>(x)[i]};
    case DType::i32:
      return {.integer = static_cast<const int32_t*>(x)[i]};
    case DType::u8:
      return {.integer = static_cast<const uint8_t*>(x)[i]};
    case DType::boolean:
      return {.integer = static_cast<const bool*>(x)[i]};
  }
  return {};
}

/// Truncated towards zero, saturating at T's ends; NaN is 0.
template <class T>
__device__ inline T to_integer(DType from, Number x) {
  constexpr T lowest = std::numeric_limits<T>::min();
  constexpr T highest = std::numeric_limits<T>::max();
  if (is_floating(from)) {
    if (isnan(x.real)) return 0;
    // The highest i64 as a double rounds up to 2^63, which does not fit either.
    if (x.real >= static_cast<double>(highest)) return highest;
    if (x.real <= static_cast<double>(lowest)) return lowest;
    return static_cast<T>(x.real);
  }
  if (x.integer < int64_t{lowest}) return lowest;
  if (x.integer > int64_t{highest}) return highest;
  return static_cast<T>(x.integer);
}

__device__ inline float to_float(DType from, Number x) {
  return is_floating(from) ? static_cast<float>(x.real) : static_cast<float>(x.integer);
}

__device__ inline void store_number(DType from, Number x, DType to, void* y, int64_t i) {
  switch (to) {
    case DType::f32:
      static_cast<float*>(y)[i] = to_float(from, x);
      return;
    case DType::f64:
      static_cast<double*>(y)[i] = is_floating(from) ? x.real : static_cast<double>(x.integer);
      return;
    case DType::f16:
      static_cast<half_t*>(y)[i] = from_f32<half_t>(to_float(from, x));
      return;
    case DType::bf16:
      static_cast<bfloat_t*>(y)[i] = from_f32<bfloat_t>(to_float(from, x));
      return;
    case DType::i64:
      static_cast<int64_t*>(y)[i] = to_integer<int64_t>(from, x);
      return;
    case DType::i32:
      static_cast<int32_t*>(y)[i] = to_integer<int32_t>(from, x);
      return;
    case DType::u8:
      static_cast<uint8_t*>(y)[i] = to_integer<uint8_t>(from, x);
      return;
    case DType::boolean:
      static_cast<bool*>(y)[i] = is_floating(from) ? x.real != 0 : x.integer != 0;
      return;
  }
}

}  // namespace whisker::cuda
