// A decoded image: 8-bit RGB, row-major (H, W, 3), upright (EXIF orientation already applied).
// Views point into one, so that a crop costs nothing.
#pragma once

#include "core/image/image_record.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace whisker {

struct Image {
  int height = 0;
  int width = 0;
  std::vector<uint8_t> rgb;  // (H, W, 3)

  /// Sets the extents and resizes the buffer; the contents are then unspecified. One Image per
  /// thread decodes without allocating, because large buffers are kept.
  void reshape(int new_height, int new_width) {
    height = new_height;
    width = new_width;
    rgb.resize(static_cast<size_t>(height) * static_cast<size_t>(width) * 3);
  }
  uint8_t* row(int y) {
    return rgb.data() + static_cast<size_t>(y) * static_cast<size_t>(width) * 3;
  }
  const uint8_t* row(int y) const {
    return rgb.data() + static_cast<size_t>(y) * static_cast<size_t>(width) * 3;
  }
};

/// A rectangle between pixel edges: pixel (0, 0) covers [0, 1) x [0, 1).
struct Box {
  double x0 = 0;
  double y0 = 0;
  double x1 = 0;
  double y1 = 0;
};

/// A rectangle of pixels in a buffer that it does not own.
struct ImageView {
  const uint8_t* rgb = nullptr;  // (H, W, 3), rows `stride` bytes apart
  ptrdiff_t stride = 0;
  int height = 0;
  int width = 0;
  /// Bytes readable from `rgb` on: kernels load whole vectors up to this limit.
  size_t readable = 0;

  ImageView() = default;
  explicit ImageView(const Image& image) : ImageView(image, {0, 0, image.width, image.height}) {}
  /// `rect` must lie inside the image.
  ImageView(const Image& image, Rect rect)
      : rgb(image.row(rect.top) + ptrdiff_t{3} * rect.left),
        stride(ptrdiff_t{3} * image.width),
        height(rect.height),
        width(rect.width),
        readable(image.rgb.size() - static_cast<size_t>(rgb - image.rgb.data())) {}

  const uint8_t* row(int y) const { return rgb + y * stride; }
};

}  // namespace whisker
