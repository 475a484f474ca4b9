// Images painted for tests of augmentation, and what is measured in the results: shared by
// augment_draws_test.cpp and augment_warp_test.cpp.
#pragma once

#include "data/transforms/augment_sampler.h"
#include "data/transforms/transform_image.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace whisker::test {

inline Image painted(int width, int height, const std::function<int(int x, int y, int c)>& value) {
  Image image;
  image.reshape(height, width);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        image.row(y)[3 * x + c] = static_cast<uint8_t>(value(x, y, c));
      }
    }
  }
  return image;
}

/// Red shows x, green y.
inline Image ramps(int width, int height, int first, int step) {
  return painted(width, height, [&](int x, int y, int c) {
    return c == 0 ? first + step * x : c == 1 ? first + step * y : 128;
  });
}

/// Values in [0, 255], (H, W, 3).
struct Result {
  int width = 0;
  std::vector<float> values;
  double at(int y, int x, int c) const {
    return values[static_cast<size_t>((y * width + x) * 3 + c)];
  }
};

inline Result augmented(const Image& image, const ImageSize& size, const ImageRecord& record) {
  Result result{size.width, std::vector<float>(static_cast<size_t>(size.height * size.width * 3))};
  TransformScratch scratch;
  transform_image(ImageView(image, record.crop), record, {.values = result.values, .size = size},
                  scratch);
  return result;
}

inline Preprocess without_normalising(const ImageSize& size) {
  return {.size = size, .resize_mode = ResizeMode::squash, .normalisation = {.scale = 1}};
}

/// Image `index` of a run with this configuration.
inline Result drawn(const Image& image, const ImageSize& size, const AugmentConfig& config,
                    uint64_t index) {
  return augmented(image, size,
                   sample_augmentation(config, without_normalising(size), {7, 3, index},
                                       image.height, image.width));
}

/// rotation * shift * shear * zoom, solved for its parts; see warp_matrix().
inline WarpParameters parts_of(const double* m) {
  WarpParameters warp;
  warp.rotation = std::atan2(m[1], m[4]);
  const double c = std::cos(warp.rotation), s = std::sin(warp.rotation);
  const double x = c * m[0] - s * m[3];  // the rotation undone
  const double y = s * m[0] + c * m[3];
  warp.shear = std::atan2(-y, x);
  warp.zoom_x = std::hypot(x, y);
  warp.zoom_y = std::hypot(m[1], m[4]);
  warp.shift_x = c * m[2] - s * m[5];
  warp.shift_y = s * m[2] + c * m[5];
  return warp;
}

}  // namespace whisker::test
