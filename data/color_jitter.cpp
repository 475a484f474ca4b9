#include "data/color_jitter.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

constexpr float top = 255;

float gray(const float* rgb) {
  return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
}
float clamped(float value) {
  return std::min(std::max(value, 0.0f), top);
}

// RGB to HSV, hue plus `turn`, and back (Smith, "Color gamut transform pairs", SIGGRAPH 1978).
void turn_hue(float* rgb, float turn) {
  const float value = std::max({rgb[0], rgb[1], rgb[2]});
  const float chroma = value - std::min({rgb[0], rgb[1], rgb[2]});
  if (chroma <= 0) return;
  float sextant;  // hue in [0, 6)
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
    const float k = at - 6 * std::floor(at / 6);
    rgb[c] = value - chroma * std::max(0.0f, std::min({k, 4 - k, 1.0f}));
  }
}

}  // namespace

void jitter(const JitterStep& step, std::span<float> pixels) {
  const auto amount = static_cast<float>(step.amount);
  switch (step.kind) {
    case JitterKind::brightness:
      for (float& value : pixels) value = clamped(value * amount);
      return;
    case JitterKind::contrast: {
      double sum = 0;
      for (size_t i = 0; i < pixels.size(); i += 3) sum += static_cast<double>(gray(&pixels[i]));
      const double mean = sum / (static_cast<double>(pixels.size()) / 3);
      const auto shift = static_cast<float>((1 - step.amount) * mean);
      for (float& value : pixels) value = clamped(value * amount + shift);
      return;
    }
    case JitterKind::saturation:
      for (size_t i = 0; i < pixels.size(); i += 3) {
        const float shift = (1 - amount) * gray(&pixels[i]);
        for (size_t c = 0; c < 3; ++c) pixels[i + c] = clamped(pixels[i + c] * amount + shift);
      }
      return;
    case JitterKind::hue:
      for (size_t i = 0; i < pixels.size(); i += 3) turn_hue(&pixels[i], amount);
      return;
  }
}

}  // namespace whisker
