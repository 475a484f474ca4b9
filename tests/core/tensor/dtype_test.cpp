// Half-precision conversions over every one of their 65,536 bit patterns.
#include "core/tensor/dtype.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace whisker {
namespace {

template <class T>
T from_bits(uint32_t bits) {
  T value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

// The value a bit pattern stands for, from the format's definition (IEEE 754-2008, 3.4).
double defined_value(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const auto exponent = static_cast<int>((bits >> fraction_bits) & ((1u << exponent_bits) - 1));
  const double sign = bits & 0x8000u ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1u << fraction_bits), exponent - bias - fraction_bits);
}

template <class T, int exponent_bits, int fraction_bits>
struct Format {
  using Type = T;
  static constexpr uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
  static double value(uint32_t bits) { return defined_value(bits, exponent_bits, fraction_bits); }
};

template <class F>
class HalfPrecision : public testing::Test {};
using Formats = testing::Types<Format<f16_t, 5, 10>, Format<bf16_t, 8, 7>>;
TYPED_TEST_SUITE(HalfPrecision, Formats);

TYPED_TEST(HalfPrecision, EveryPatternHasItsDefinedValueAndComesBack) {
  using T = typename TypeParam::Type;
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto value = static_cast<float>(from_bits<T>(bits));
    const double expected = TypeParam::value(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(T(value)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000u) != 0) << bits;
    ASSERT_EQ(T(value).bits, bits);
  }
}

TYPED_TEST(HalfPrecision, EveryGapRoundsToNearestTiesToEven) {
  using T = typename TypeParam::Type;
  for (uint32_t bits = 0; bits + 1 < TypeParam::infinity; ++bits) {
    const double low = TypeParam::value(bits);
    const double high = TypeParam::value(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    if (static_cast<double>(middle) != (low + high) / 2) continue;  // below f32's own grid
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(T(middle).bits, even) << bits;
    ASSERT_EQ(T(-middle).bits, even | 0x8000u) << bits;
    ASSERT_EQ(T(std::nextafterf(middle, 0)).bits, bits);
    ASSERT_EQ(T(std::nextafterf(middle, INFINITY)).bits, bits + 1);
  }
}

TYPED_TEST(HalfPrecision, OverflowsToInfinityFromHalfAStepAboveTheLargest) {
  using T = typename TypeParam::Type;
  const double largest = TypeParam::value(TypeParam::infinity - 1);
  const double step = largest - TypeParam::value(TypeParam::infinity - 2);
  const auto limit = static_cast<float>(largest + step / 2);
  EXPECT_EQ(T(limit).bits, TypeParam::infinity);
  EXPECT_EQ(T(std::nextafterf(limit, 0)).bits, TypeParam::infinity - 1);
  EXPECT_EQ(T(-INFINITY).bits, TypeParam::infinity | 0x8000u);
  EXPECT_EQ(T(std::numeric_limits<float>::denorm_min()).bits, 0);
  // A NaN whose upper half would be an infinity's.
  EXPECT_TRUE(std::isnan(static_cast<float>(T(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(T(std::bit_cast<float>(0xffffffffu)))));
}

}  // namespace
}  // namespace whisker
