// 8-bit pictures to f32 tensors: y = (v * scale - mean) / std per channel.
#pragma once

#include "core/picture_arithmetic.h"
#include "data/picture.h"

#include <array>
#include <span>

namespace whisker {

/// Pixel values times `scale`, then per channel minus `mean`, divided by `std`. Element 0 serves
/// single-channel pictures.
struct Normalisation {
  double scale = 1.0 / 255;
  std::array<double, 3> mean{0, 0, 0};
  std::array<double, 3> std{1, 1, 1};

  /// y = v * factor(c) + offset(c), rounded to single precision once.
  float factor(size_t c) const { return static_cast<float>(scale / std[c]); }
  float offset(size_t c) const { return static_cast<float>(-mean[c] / std[c]); }
};

/// `picture` (H, W, 3) to `out` (H, W, channels), channels 3 or 1 (gray_of, normalised by element
/// 0).
void normalise(const Picture& picture, int channels, const Normalisation& normalisation,
               std::span<float> out);

}  // namespace whisker
