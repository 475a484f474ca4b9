// Brightness, contrast, saturation and hue on f32 RGB.
#pragma once

#include "core/picture_record.h"

#include <span>

namespace whisker {

/// Applies one step in place to `pixels` (H, W, 3) in [0, 255].
void jitter(const JitterStep& step, std::span<float> pixels);

}  // namespace whisker
