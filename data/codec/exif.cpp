#include "data/codec/exif.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace whisker {
namespace {

// Bounded reads of a TIFF block in either byte order.
class TiffReader {
 public:
  explicit TiffReader(std::span<const uint8_t> bytes)
      : bytes_(bytes), little_(!bytes.empty() && bytes[0] == 'I') {}

  std::optional<uint32_t> u16(size_t at) const {
    if (at > bytes_.size() || bytes_.size() - at < 2) return std::nullopt;
    const uint32_t first = bytes_[at];
    const uint32_t second = bytes_[at + 1];
    return little_ ? first | second << 8 : first << 8 | second;
  }
  std::optional<uint32_t> u32(size_t at) const {
    const auto first = u16(at);
    const auto second = u16(at + 2);
    if (!first || !second) return std::nullopt;
    return little_ ? *first | *second << 16 : *first << 16 | *second;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool little_;
};

}  // namespace

int exif_orientation(std::span<const uint8_t> tiff) {
  constexpr uint32_t orientation_tag = 0x0112;
  constexpr uint32_t type_short = 3;
  if (tiff.size() < 8) return 1;
  const bool little = tiff[0] == 'I' && tiff[1] == 'I';
  const bool big = tiff[0] == 'M' && tiff[1] == 'M';
  if (!little && !big) return 1;
  const TiffReader reader(tiff);
  if (reader.u16(2) != 42u) return 1;
  const size_t directory = reader.u32(4).value_or(0);
  const uint32_t entries = reader.u16(directory).value_or(0);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + size_t{12} * i;
    const auto tag = reader.u16(entry);
    if (!tag) return 1;
    if (*tag != orientation_tag) continue;
    if (reader.u16(entry + 2) != type_short || reader.u32(entry + 4) != 1u) return 1;
    const uint32_t value = reader.u16(entry + 8).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// Each orientation is: stored x mirrored, stored y mirrored, then x and y swapped (5-8).
//   1 -        2 x        3 x and y  4 y        5 swap     6 y, swap  7 x and y, swap  8 x, swap
namespace {
bool mirrors_x(int orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
bool mirrors_y(int orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}
}  // namespace

Rect stored_rect(Rect upright, int orientation, int stored_width, int stored_height) {
  Rect rect = upright;
  if (swaps_sides(orientation)) {
    std::swap(rect.left, rect.top);
    std::swap(rect.width, rect.height);
  }
  if (mirrors_x(orientation)) rect.left = stored_width - rect.left - rect.width;
  if (mirrors_y(orientation)) rect.top = stored_height - rect.top - rect.height;
  return rect;
}

Point upright_point(Point stored, int orientation, double stored_width, double stored_height) {
  if (mirrors_x(orientation)) stored.x = stored_width - stored.x;
  if (mirrors_y(orientation)) stored.y = stored_height - stored.y;
  if (swaps_sides(orientation)) std::swap(stored.x, stored.y);
  return stored;
}

void make_upright(Image& image, int orientation, Image& scratch) {
  if (orientation <= 1) return;
  const bool swap = swaps_sides(orientation);
  const int height = image.height;
  const int width = image.width;
  if (swap) {
    scratch.reshape(width, height);
  } else {
    scratch.reshape(height, width);
  }
  const ptrdiff_t row_bytes = ptrdiff_t{3} * scratch.width;
  const ptrdiff_t step_x = swap ? row_bytes : 3;
  const ptrdiff_t step_y = swap ? 3 : row_bytes;
  const bool flip_x = mirrors_x(orientation);
  const bool flip_y = mirrors_y(orientation);
  // Blocks keep both the rows read and the rows written in the cache when sides swap.
  constexpr int block = 64;
  for (int top = 0; top < height; top += block) {
    for (int left = 0; left < width; left += block) {
      for (int y = top; y < std::min(top + block, height); ++y) {
        const uint8_t* from = image.row(y);
        uint8_t* to = scratch.rgb.data() + step_y * (flip_y ? height - 1 - y : y);
        for (int x = left; x < std::min(left + block, width); ++x) {
          std::memcpy(to + step_x * (flip_x ? width - 1 - x : x), from + ptrdiff_t{3} * x, 3);
        }
      }
    }
  }
  std::swap(image, scratch);
}

}  // namespace whisker
