// How an element of one type becomes an element of another, alike on every device: to integers by
// truncation towards zero, saturating at the type's ends, NaN to 0; to bool by "is not zero".
#pragma once

#include "core/tensor/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace whisker {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>;

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_half<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (is_half<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_floating_point_v<From>) {
    if (std::isnan(value)) return To(0);
    // 2^digits and its negative are exact in every floating type, the integer's maximum may not be.
    const From end = std::ldexp(From(1), std::numeric_limits<To>::digits);
    if (value >= end) return std::numeric_limits<To>::max();
    if (value <= (std::is_signed_v<To> ? -end : From(0))) return std::numeric_limits<To>::min();
    return static_cast<To>(value);
  } else {
    const auto wide = static_cast<int64_t>(value);
    return static_cast<To>(std::clamp(wide, static_cast<int64_t>(std::numeric_limits<To>::min()),
                                      static_cast<int64_t>(std::numeric_limits<To>::max())));
  }
}

}  // namespace whisker
