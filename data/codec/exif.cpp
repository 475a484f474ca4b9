#include "data/codec/exif.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
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

constexpr uint32_t orientation_tag = 0x0112;
constexpr uint32_t type_short = 3, type_long = 4, type_signed_short = 8, type_signed_long = 9;

int known_orientation(uint32_t value) {
  return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
}

// Directory entry `at`, which is there; nothing for one that Pillow leaves out. 1 for a value that
// turns nothing.
std::optional<int> entry_orientation(const TiffReader& reader, size_t at, int rules) {
  const uint32_t type = reader.u16(at + 2).value_or(0);
  const uint32_t count = reader.u32(at + 4).value_or(0);
  if (count == 0 && rules > 1) return std::nullopt;
  const bool is_short = type == type_short || (rules > 1 && type == type_signed_short);
  const bool is_long = rules > 1 && (type == type_long || type == type_signed_long);
  if (count != 1 || !(is_short || is_long)) return 1;
  const auto value = is_short ? reader.u16(at + 8) : reader.u32(at + 8);
  if (!value && rules > 1) return std::nullopt;
  return known_orientation(value.value_or(1));
}

// That of a TIFF block; nothing when it has none.
std::optional<int> tiff_orientation(std::span<const uint8_t> tiff, int rules) {
  if (tiff.size() < 8) return std::nullopt;
  const bool little = tiff[0] == 'I' && tiff[1] == 'I';
  const bool big = tiff[0] == 'M' && tiff[1] == 'M';
  if (!little && !big) return std::nullopt;
  const TiffReader reader(tiff);
  if (reader.u16(2) != 42u) return std::nullopt;
  const size_t directory = reader.u32(4).value_or(0);
  const uint32_t entries = reader.u16(directory).value_or(0);
  std::optional<int> found;
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + size_t{12} * i;
    const auto tag = reader.u16(entry);
    if (!tag) break;
    if (*tag != orientation_tag) continue;
    if (const auto one = entry_orientation(reader, entry, rules)) found = one;
    if (rules == 1) break;  // later rules: the last counts
  }
  return found;
}

// Pillow's pattern: tiff:Orientation(="|>)([0-9]).
int xmp_orientation(std::span<const uint8_t> xmp) {
  constexpr std::string_view name = "tiff:Orientation";
  const std::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at)) {
    at += name.size();
    std::string_view rest = text.substr(at);
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with(">")) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      return known_orientation(static_cast<uint32_t>(rest[0] - '0'));
    }
  }
  return 1;
}

}  // namespace

int exif_orientation(const OrientationTags& tags, int rules) {
  constexpr std::string_view prefix("Exif\0\0", 6);
  std::span<const uint8_t> tiff = tags.exif;
  for (int i = 0; i < 2 && rules > 1; ++i) {
    const std::string_view text(reinterpret_cast<const char*>(tiff.data()), tiff.size());
    if (text.starts_with(prefix)) tiff = tiff.subspan(prefix.size());
  }
  const std::optional<int> found = tiff_orientation(tiff, rules);
  return found || rules == 1 ? found.value_or(1) : xmp_orientation(tags.xmp);
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
