// Decodes the bytes of a JPEG, PNG, BMP, WebP, PBM, PGM or PPM file to upright 8-bit RGB. The first
// bytes decide the format, never a name. Any bytes yield pixels or one ErrorKind::data error
// (reason in the first line; the caller adds the file's name) in bounded time and memory. See Note
// [Image rules].
#pragma once

#include "data/codec/image.h"
#include "data/files/decode_rules.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace whisker {

// Note [Image rules]
// - Gray, palette and 1/2/4-bit images become RGB by replication and the palette; palette indices
//   past its end are black; 16-bit samples (PNG; PGM and PPM of maximum 65535) keep their high
//   byte, or that of their lowest DecodeRules::png_bits, of which larger ones are white.
// - Alpha (also tRNS) is composited over white.
// - CMYK and YCCK become RGB as R = (255 - C)(255 - K) / 255; with an Adobe marker the file holds
//   the complements, as Photoshop writes them. Embedded colour profiles are ignored.
// - All eight orientations are applied, from EXIF (JPEG APP1, PNG eXIf and raw profiles, WebP EXIF)
//   or else XMP, as Pillow's exif_transpose finds them.
// - Animated PNGs give their default image, animated WebPs are refused. Bytes after the image's
//   end are ignored.
// - An image that ends early is an error, also where libjpeg would only warn: unreadable codes, a
//   marker inside the data, restart markers out of order. Extra bytes between JPEG segments are
//   harmless and accepted. A flipped byte inside the data of a JPEG or WebP can be invisible to any
//   decoder.
// - Limits: sides to 65,535, `max_pixels`, JPEG scans x pixels to 2e9, PNG memory to
//   32 x pixels + 1 MiB + 2 x file, WebP memory to 32 x pixels + 64 MiB, files to 1 GiB: 2 s up to
//   25 megapixels, above in proportion.

enum class ImageKind { jpeg, png, bmp, webp, pnm };

inline constexpr int64_t default_max_pixels = 100'000'000;
/// Largest file that is read as an image.
inline constexpr size_t max_image_bytes = size_t{1} << 30;

/// A file's content as decoders read it.
inline std::span<const uint8_t> bytes_of(std::string_view content) {
  return {reinterpret_cast<const uint8_t*>(content.data()), content.size()};
}

/// The contents of an image's header.
struct ImageHeader {
  ImageKind kind = ImageKind::jpeg;
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
  DecodeRules rules = {};
  /// The upright pixels that are needed; nothing: all. Ignored beside `fast`. The other pixels of a
  /// JPEG are unspecified. The file is checked to its end all the same.
  std::optional<Rect> part = {};
  /// When set, a JPEG is decoded only around the crop, at the smallest scale of 1/2, 1/4 and 1/8 at
  /// which the crop still covers the target. Pixels then differ slightly from exact ones.
  std::optional<CropRequest> fast = {};
};

/// Decoded pixels and their position: full-resolution upright edge x is at x / scale - origin_x.
struct Decoded {
  Image image;
  int full_height = 0;
  int full_width = 0;
  int scale = 1;  ///< 1, 2, 4 or 8
  double origin_x = 0;
  double origin_y = 0;
  uint32_t largest_sample = 0;  ///< of a file of 16 bits per sample; else 0
  bool has_alpha = false;       ///< a channel, or transparent colours
  Image scratch;                ///< for make_upright()
};

/// Kind and upright extents, or throws data as decode() would for the same header.
ImageHeader read_header(std::span<const uint8_t> bytes, int64_t max_pixels = default_max_pixels,
                        const DecodeRules& rules = {});

/// Decodes into `out`, reusing its buffers. Throws data unless `bytes` are a complete image, usage
/// for a crop or part outside the image, and std::bad_alloc, which is not the file's fault.
void decode(std::span<const uint8_t> bytes, const DecodeOptions& options, Decoded& out);

/// Decodes the whole image exactly.
Image decode(std::span<const uint8_t> bytes, int64_t max_pixels = default_max_pixels);

/// The pixels of `decoded` that crop `crop` (full-resolution upright pixels) touches, and where the
/// crop's edges lie in that view: what resize() takes.
struct CroppedView {
  ImageView view;
  Box box;
};
CroppedView crop_view(const Decoded& decoded, Rect crop);

}  // namespace whisker
