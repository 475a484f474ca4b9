// 8-bit pictures to f32 tensors: y = (v * scale - mean) / std per channel.
#pragma once

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

/// The gray of an RGB pixel: Rec. 601 in 16-bit fixed point, as Pillow's convert("L").
inline uint8_t gray_of(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

/// `picture` (H, W, 3) to `out` (H, W, channels), channels 3 or 1 (gray_of, normalised by element
/// 0).
void normalise(const Picture& picture, int channels, const Normalisation& normalisation,
               std::span<float> out);

}  // namespace whisker
