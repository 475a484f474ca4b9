// The C++ types of elements and the one way to dispatch on them: visit(dtype, [&]<class T>() { ...
// }).
#pragma once

#include "core/error.h"
#include "core/tensor/dtype_name.h"

#include <bit>
#include <cstdint>

namespace whisker {

/// bfloat16 storage: the upper half of an f32, rounded to nearest even.
struct bf16_t {
  uint16_t bits = 0;
  bf16_t() = default;
  explicit bf16_t(float value) : bits(round(value)) {}
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
  /// The bits of `value` as bf16. Branchless, so that loops over it vectorise.
  static uint16_t round(float value) {
    const auto u = std::bit_cast<uint32_t>(value);
    const uint32_t quiet = (u >> 16) | 0x40u;  // keeps a NaN a NaN
    const uint32_t nearest = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : nearest);
  }
};

/// IEEE half-precision storage; conversions in dtype.cpp.
struct f16_t {
  uint16_t bits = 0;
  f16_t() = default;
  explicit f16_t(float value);
  explicit operator float() const;
};

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> : std::integral_constant<DType, DType::f32> {};
template <>
struct dtype_of<double> : std::integral_constant<DType, DType::f64> {};
template <>
struct dtype_of<f16_t> : std::integral_constant<DType, DType::f16> {};
template <>
struct dtype_of<bf16_t> : std::integral_constant<DType, DType::bf16> {};
template <>
struct dtype_of<int64_t> : std::integral_constant<DType, DType::i64> {};
template <>
struct dtype_of<int32_t> : std::integral_constant<DType, DType::i32> {};
template <>
struct dtype_of<uint8_t> : std::integral_constant<DType, DType::u8> {};
template <>
struct dtype_of<bool> : std::integral_constant<DType, DType::boolean> {};

/// Calls fn.template operator()<T>() with the C++ type of `dtype`.
template <class Fn>
decltype(auto) visit(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::f32:
      return fn.template operator()<float>();
    case DType::f64:
      return fn.template operator()<double>();
    case DType::f16:
      return fn.template operator()<f16_t>();
    case DType::bf16:
      return fn.template operator()<bf16_t>();
    case DType::i64:
      return fn.template operator()<int64_t>();
    case DType::i32:
      return fn.template operator()<int32_t>();
    case DType::u8:
      return fn.template operator()<uint8_t>();
    case DType::boolean:
      return fn.template operator()<bool>();
  }
  fail(ErrorKind::internal, "visit: unknown dtype {}", static_cast<int>(dtype));
}

}  // namespace whisker

template <>
struct fmt::formatter<whisker::DType> : fmt::formatter<std::string_view> {
  auto format(whisker::DType dtype, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(whisker::name_of(dtype), context);
  }
};
