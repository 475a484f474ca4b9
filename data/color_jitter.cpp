#include "data/color_jitter.h"

#include "core/picture_arithmetic.h"

namespace whisker {

void jitter(const JitterStep& step, std::span<float> pixels) {
  const auto amount = static_cast<float>(step.amount);
  switch (step.kind) {
    case JitterKind::brightness:
      for (float& value : pixels) value = clamp_to_byte(value * amount);
      return;
    case JitterKind::contrast: {
      double sum = 0;
      for (size_t i = 0; i < pixels.size(); i += 3) {
        sum += static_cast<double>(jitter_gray(&pixels[i]));
      }
      const float shift = contrast_shift(step, sum / (static_cast<double>(pixels.size()) / 3));
      for (float& value : pixels) value = clamp_to_byte(value * amount + shift);
      return;
    }
    case JitterKind::saturation:
    case JitterKind::hue:
      for (size_t i = 0; i < pixels.size(); i += 3) jitter_pixel(step, 0, &pixels[i]);
      return;
  }
}

}  // namespace whisker
