// From the bytes of a JPEG, PNG or BMP file to upright 8-bit RGB. The kind is told by the first
// bytes, never by a name. Any bytes give pixels or one ErrorKind::data error (a line with the
// reason first; the caller adds the file's name) in bounded time and memory. See Note [Picture
// rules].
#pragma once

#include "data/picture.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace whisker {

// Note [Picture rules]
// - Gray, palette and 1/2/4-bit pictures become RGB by replication and the palette; palette indices
//   past its end are black; 16-bit samples keep their high byte.
// - Alpha (also tRNS) is composited over white.
// - CMYK and YCCK become RGB as R = (255 - C)(255 - K) / 255; with an Adobe marker the file holds
//   the complements, as Photoshop writes them. Embedded colour profiles are ignored.
// - All eight EXIF orientations are applied (JPEG APP1, PNG eXIf); orientation in XMP alone is not.
// - Animated PNGs give their default image. Bytes after the picture's end are ignored.
// - A picture that ends early is an error, also where libjpeg would only warn: unreadable codes, a
//   marker inside the data, restart markers out of order. Extra bytes between JPEG segments are
//   harmless and accepted. A flipped byte inside a JPEG's entropy data can be invisible to any
//   decoder.
// - Limits: sides to 65,535, `max_pixels`, JPEG scans x pixels to 2e9, PNG memory to
//   32 x pixels + 1 MiB + 2 x file, files to 1 GiB: 2 s up to 25 megapixels, above in proportion.

enum class PictureKind { jpeg, png, bmp };

inline constexpr int64_t default_max_pixels = 100'000'000;
/// No larger file is read as a picture.
inline constexpr size_t max_picture_bytes = size_t{1} << 30;

/// A file's content as it is decoded.
inline std::span<const uint8_t> bytes_of(std::string_view content) {
  return {reinterpret_cast<const uint8_t*>(content.data()), content.size()};
}

/// What a picture's header says, without decoding it.
struct PictureHeader {
  PictureKind kind = PictureKind::jpeg;
  int height = 0;       ///< upright
  int width = 0;        ///< upright
  int orientation = 1;  ///< EXIF, 1-8
};

/// A training crop, for which decoding may be scaled and partial.
struct CropRequest {
  Rect crop{};  ///< in full-resolution upright pixels
  int target_height = 0;
  int target_width = 0;
};

struct DecodeOptions {
  int64_t max_pixels = default_max_pixels;
  /// When set, a JPEG is decoded at the strongest of 1/2, 1/4, 1/8 at which the crop still covers
  /// the target on both sides, and only around the crop. Pixels then differ slightly from exact
  /// ones.
  std::optional<CropRequest> fast = {};
};

/// Decoded pixels and where they lie: full-resolution upright edge x is at x / scale - origin_x.
struct Decoded {
  Picture picture;
  int full_height = 0;
  int full_width = 0;
  int scale = 1;  ///< 1, 2, 4 or 8
  double origin_x = 0;
  double origin_y = 0;
  Picture scratch;  ///< the second buffer that turning upright needs
};

/// Kind and upright extents, or throws data as decode() would for the same header.
PictureHeader read_header(std::span<const uint8_t> bytes, int64_t max_pixels = default_max_pixels);

/// Decodes into `out`, reusing its buffers. Throws data for anything that is no whole picture, and
/// usage for a requested crop outside the picture.
void decode(std::span<const uint8_t> bytes, const DecodeOptions& options, Decoded& out);

/// Decodes the whole picture exactly.
Picture decode(std::span<const uint8_t> bytes, int64_t max_pixels = default_max_pixels);

/// The pixels of `decoded` that crop `crop` (full-resolution upright pixels) touches, and where the
/// crop's edges lie in that view: what resize() takes.
struct CroppedView {
  PictureView view;
  Box box;
};
CroppedView crop_view(const Decoded& decoded, Rect crop);

}  // namespace whisker
