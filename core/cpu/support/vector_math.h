// Elementary functions in f32 without branches or calls, so that loops over them vectorise.
// Argument reduction is textbook; the polynomials are Chebyshev fits made for Whisker. Relative
// errors are below 3e-7 but for erfc's far tail (2e-6 at 5), where exp(-x^2) magnifies the rounding
// of x^2.
#pragma once

#include <bit>
#include <cstdint>
#include <numbers>

namespace whisker::cpu {

/// 2^n for n in [-126, 127].
inline float power_of_two(int32_t n) {
  return std::bit_cast<float>((n + 127) << 23);
}

/// e^x; 0 below -104, infinity above 88.73, NaN for NaN.
inline float vector_exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  // x = n ln 2 + r: the magic constant rounds to an integer and leaves it in the low bits.
  constexpr float magic = 12582912.0f;  // 1.5 * 2^23
  const float shifted = x * std::numbers::log2e_v<float> + magic;
  const int32_t n = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(magic);
  const float rounded = shifted - magic;
  const float r = (x - rounded * 0.693359375f) + rounded * 2.12194440e-4f;
  float p = 0.0013926176f;
  p = p * r + 0.008363173f;
  p = p * r + 0.041666555f;
  p = p * r + 0.16666577f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  // Twice half the exponent: results down to the denormals and up to infinity.
  const int32_t half = n / 2;
  return p * power_of_two(half) * power_of_two(n - half);
}

/// log(1 + m) for m in [sqrt(1/2) - 1, sqrt(2) - 1].
inline float log1p_near_zero(float m) {
  float p = 0.06971611f;
  p = p * m - 0.11479734f;
  p = p * m + 0.1168542f;
  p = p * m - 0.12425687f;
  p = p * m + 0.14249058f;
  p = p * m - 0.16667802f;
  p = p * m + 0.20000716f;
  p = p * m - 0.24999997f;
  p = p * m + 0.33333331f;
  return m - 0.5f * m * m + m * m * m * p;
}

/// log(1 + e^-a) for a >= 0.
inline float vector_log1p_exp_minus(float a) {
  const float m = vector_exp(-a);
  const bool large = m > 0.41421356f;
  const float t = large ? 0.5f * (m - 1.0f) : m;  // (1 + m) / 2 - 1
  return log1p_near_zero(t) + (large ? std::numbers::ln2_v<float> : 0.0f);
}

/// 1 / (1 + e^-x).
inline float vector_sigmoid(float x) {
  return 1.0f / (1.0f + vector_exp(-x));
}

inline float vector_tanh(float x) {
  const float z = x * x;
  float p = 0.0022927447f;
  p = p * z - 0.0083439455f;
  p = p * z + 0.021768919f;
  p = p * z - 0.05395926f;
  p = p * z + 0.13333304f;
  p = p * z - 0.33333333f;
  const float small = x + x * z * p;
  const float a = x < 0 ? -x : x;
  const float large = 1.0f - 2.0f / (vector_exp(2.0f * a) + 1.0f);
  return a < 0.625f ? small : x < 0 ? -large : large;
}

/// 1 - erf(x): e^(-x^2) times a polynomial in t = 1 / (1 + x / 2), mirrored for x < 0.
inline float vector_erfc(float x) {
  const float a = x < 0 ? -x : x;
  const float t = 1.0f / (1.0f + 0.5f * a);
  float p = 0.032398651f;
  p = p * t - 0.17162889f;
  p = p * t + 0.33256864f;
  p = p * t - 0.21899326f;
  p = p * t - 0.086649466f;
  p = p * t + 0.074567962f;
  p = p * t + 0.039057512f;
  p = p * t + 0.18979547f;
  p = p * t + 0.24447911f;
  p = p * t + 0.28231843f;
  p = p * t + 0.28208585f;
  const float tail = t * p * vector_exp(-a * a);
  return x < 0 ? 2.0f - tail : tail;
}

}  // namespace whisker::cpu
