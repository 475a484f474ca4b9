// Brightness, contrast, saturation and hue on f32 RGB.
#pragma once

#include <span>

namespace whisker {

/// One step of color jitter on values in [0, 255], each clamped to that range afterwards:
/// brightness v * amount; contrast v * amount + (1 - amount) * (mean gray of the picture);
/// saturation v * amount + (1 - amount) * (gray of the pixel); hue: HSV hue + amount turns.
/// Gray is 0.299 R + 0.587 G + 0.114 B. (torchvision's ColorJitter on float images.)
enum class JitterKind { brightness, contrast, saturation, hue };
struct JitterStep {
  JitterKind kind = JitterKind::brightness;
  double amount = 1;
};

/// Applies one step in place to `pixels` (H, W, 3) in [0, 255].
void jitter(const JitterStep& step, std::span<float> pixels);

}  // namespace whisker
