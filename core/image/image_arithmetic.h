// The arithmetic of augmentation, one text for every device: constexpr functions that host code and
// kernels call alike. Without contraction to fused multiply-adds (which the kernels' build switches
// off) both give the same bits.
#pragma once

#include "core/image/image_record.h"

#include <cstdint>

namespace whisker {

// --- resampling: Pillow's, see data/transforms/resize.h
// -----------------------------------------------------

/// An axis with its filter: `inverse` is one over the filter's stretch, `support` its half width in
/// source samples.
struct Resampling {
  Interpolation interpolation = Interpolation::bilinear;
  int in = 0;
  int first = 0;
  double from = 0;
  double scale = 1;
  double support = 1;
  double inverse = 1;
};

constexpr Resampling resampling_of(const ResizeAxis& axis, Interpolation interpolation,
                                   bool antialias) {
  // Pillow keeps the box in single precision; the same rounding here keeps the results equal.
  const auto from = static_cast<float>(axis.from);
  const double scale = static_cast<double>(static_cast<float>(axis.to) - from) / axis.out;
  const double stretch = antialias && scale > 1.0 ? scale : 1.0;
  const double reach = interpolation == Interpolation::bilinear ? 1.0 : 2.0;
  return {.interpolation = interpolation,
          .in = axis.in,
          .first = axis.first,
          .from = static_cast<double>(from),
          .scale = scale,
          .support = reach * stretch,
          .inverse = 1.0 / stretch};
}

/// No sample takes more source samples than this.
constexpr int most_taps(const Resampling& r) {
  const auto whole = static_cast<int64_t>(r.support);
  const int64_t reach = static_cast<double>(whole) < r.support ? whole + 1 : whole;
  return static_cast<int>(reach * 2 + 1 < r.in ? reach * 2 + 1 : r.in);
}

/// The source samples [first, last) that sample `i` (of those computed) is made of.
struct Taps {
  double center = 0;
  int first = 0;
  int last = 0;
};

constexpr Taps taps_of(const Resampling& r, int i) {
  const double center = r.from + (r.first + i + 0.5) * r.scale;
  const int first = static_cast<int>(center - r.support + 0.5);
  const int last = static_cast<int>(center + r.support + 0.5);
  return {.center = center, .first = first > 0 ? first : 0, .last = last < r.in ? last : r.in};
}

/// The weight of the tap-th of them, before division by their sum.
constexpr double weight_of(const Resampling& r, const Taps& taps, int tap) {
  double x = (tap + taps.first - taps.center + 0.5) * r.inverse;
  x = x < 0 ? -x : x;
  if (r.interpolation == Interpolation::bilinear) return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

inline constexpr int weight_bits = 22;

/// A weight with 22 fractional bits.
constexpr int32_t fixed_weight(double weight, double sum) {
  if (sum != 0) weight *= 1.0 / sum;
  return static_cast<int32_t>(weight * (1 << weight_bits) + (weight < 0 ? -0.5 : 0.5));
}

/// A sum of weighted samples, begun with weight_half, as a sample.
inline constexpr int32_t weight_half = 1 << (weight_bits - 1);
constexpr uint8_t rounded_sample(int32_t sum) {
  const int32_t value = sum >> weight_bits;
  return static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

// --- color ---------------------------------------------------------------------------------------

struct Rgb {
  float v[3] = {};
};

/// The gray of an RGB pixel: Rec. 601 in 16-bit fixed point, as Pillow's convert("L").
constexpr uint8_t gray_of(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

constexpr float jitter_gray(const float* rgb) {
  return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
}

constexpr float clamp_to_byte(float value) {
  const float above = value < 0.0f ? 0.0f : value;
  return above < 255.0f ? above : 255.0f;
}

/// RGB to HSV, hue plus `turn`, and back (Smith, "Color gamut transform pairs", SIGGRAPH 1978).
constexpr void turn_hue(float* rgb, float turn) {
  const float larger = rgb[0] < rgb[1] ? rgb[1] : rgb[0];
  const float smaller = rgb[1] < rgb[0] ? rgb[1] : rgb[0];
  const float value = larger < rgb[2] ? rgb[2] : larger;
  const float chroma = value - (rgb[2] < smaller ? rgb[2] : smaller);
  if (chroma <= 0) return;
  float sextant = 0;  // hue in [0, 6)
  if (value == rgb[0]) {
    sextant = (rgb[1] - rgb[2]) / chroma;
  } else if (value == rgb[1]) {
    sextant = (rgb[2] - rgb[0]) / chroma + 2;
  } else {
    sextant = (rgb[0] - rgb[1]) / chroma + 4;
  }
  sextant += 6 * turn;
  for (int c = 0; c < 3; ++c) {
    const float at = sextant + 5.0f - 2.0f * static_cast<float>(c);
    const float sixth = at / 6;
    const auto cut = static_cast<float>(static_cast<int>(sixth));
    const float k = at - 6 * (cut > sixth ? cut - 1 : cut);
    const float lower = k < 4 - k ? k : 4 - k;
    const float share = lower < 1.0f ? lower : 1.0f;
    rgb[c] = value - chroma * (share < 0.0f ? 0.0f : share);
  }
}

/// What a contrast step adds to every value.
constexpr float contrast_shift(const JitterStep& step, double mean_gray) {
  return static_cast<float>((1 - step.amount) * mean_gray);
}

/// One step on one pixel; `shift` is a contrast step's contrast_shift().
constexpr void jitter_pixel(const JitterStep& step, float shift, float* rgb) {
  const auto amount = static_cast<float>(step.amount);
  if (step.kind == JitterKind::hue) return turn_hue(rgb, amount);
  if (step.kind == JitterKind::brightness) {
    for (int c = 0; c < 3; ++c) rgb[c] = clamp_to_byte(rgb[c] * amount);
    return;
  }
  if (step.kind == JitterKind::saturation) shift = (1 - amount) * jitter_gray(rgb);
  for (int c = 0; c < 3; ++c) rgb[c] = clamp_to_byte(rgb[c] * amount + shift);
}

// --- warp ----------------------------------------------------------------------------------------

/// The index that `fill_mode` shows at `i`, in [0, size); -1 for the fill value.
constexpr int fold_index(int64_t i, int size, FillMode fill_mode) {
  if (i >= 0 && i < size) return static_cast<int>(i);
  switch (fill_mode) {
    case FillMode::constant:
      return -1;
    case FillMode::nearest:
      return i < 0 ? 0 : size - 1;
    case FillMode::reflect: {
      const int64_t period = 2 * int64_t{size};
      const int64_t in_period = ((i % period) + period) % period;
      return static_cast<int>(in_period < size ? in_period : period - 1 - in_period);
    }
    case FillMode::wrap:
      return static_cast<int>(((i % size) + size) % size);
  }
  return -1;
}

/// One coordinate of a warp's source: the sample at or before it, and the share of the next.
struct WarpPoint {
  int64_t before = 0;
  float share = 0;
};

/// (m0 x + m1 y + m2) from the center, as a position on pixel centers: pixel i is at i. Far
/// outside, all modes are flat enough for the clamp, which keeps the index arithmetic in range.
constexpr WarpPoint warp_point(const double* m, double x, double y, int extent) {
  constexpr double limit = 1e9;
  double at = m[0] * x + m[1] * y + m[2] + extent / 2.0 - 0.5;
  at = at < -limit ? -limit : limit < at ? limit : at;
  auto before = static_cast<int64_t>(at);
  if (static_cast<double>(before) > at) --before;
  return {.before = before, .share = static_cast<float>(at - static_cast<double>(before))};
}

constexpr float interpolate(const float corners[4], float across, float down) {
  const float above = corners[0] + across * (corners[1] - corners[0]);
  const float below = corners[2] + across * (corners[3] - corners[2]);
  return above + down * (below - above);
}

}  // namespace whisker
