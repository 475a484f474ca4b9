// A decoded picture: 8-bit RGB, row-major (H, W, 3), upright (EXIF orientation already applied).
// Views point into one, so that a crop costs nothing.
#pragma once

#include "core/picture_record.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace whisker {

struct Picture {
  int height = 0;
  int width = 0;
  std::vector<uint8_t> rgb;  // (H, W, 3)

  /// Sets the extents and makes room; the contents are unspecified afterwards. A buffer that is
  /// large enough is kept, so one Picture per thread decodes without allocating.
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

/// A rectangle of pixels in a buffer somebody else owns.
struct PictureView {
  const uint8_t* rgb = nullptr;  // (H, W, 3), rows `stride` bytes apart
  ptrdiff_t stride = 0;
  int height = 0;
  int width = 0;
  /// How many bytes may be read from `rgb` on: the kernels load whole vectors up to this.
  size_t readable = 0;

  PictureView() = default;
  explicit PictureView(const Picture& picture)
      : PictureView(picture, {0, 0, picture.width, picture.height}) {}
  /// `rect` must lie inside the picture.
  PictureView(const Picture& picture, Rect rect)
      : rgb(picture.row(rect.top) + ptrdiff_t{3} * rect.left),
        stride(ptrdiff_t{3} * picture.width),
        height(rect.height),
        width(rect.width),
        readable(picture.rgb.size() - static_cast<size_t>(rgb - picture.rgb.data())) {}

  const uint8_t* row(int y) const { return rgb + y * stride; }
};

}  // namespace whisker
