// What the decoders share with decode.cpp: headers in stored orientation, and pixels.
#pragma once

#include "data/codec/image.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace whisker::formats {

using Bytes = std::span<const uint8_t>;

/// Extents as stored in the file, and the EXIF orientation that turns them upright.
struct StoredHeader {
  int height = 0;
  int width = 0;
  int orientation = 1;
};

/// What decode_jpeg_fast() decodes, in stored pixels of the full image, and the scale 1, 2, 4 or 8.
struct JpegPart {
  Rect crop;
  int scale = 1;
};

/// `rules` find the orientation: see Note [Data rules].
StoredHeader jpeg_header(Bytes bytes, int rules);
StoredHeader png_header(Bytes bytes, int rules);
StoredHeader webp_header(Bytes bytes, int rules);
StoredHeader bmp_header(Bytes bytes);
StoredHeader pnm_header(Bytes bytes);
/// Whether the file begins with the header of a PGM or PPM whose maximum is 65535.
bool is_deep_pnm(Bytes bytes);
/// Where the first image of a P4, P5 or P6 file ends; nothing for samples in digits.
std::optional<size_t> pnm_end(Bytes bytes);

/// What a file's samples are, besides the pixels that they become.
struct Samples {
  uint32_t largest = 0;  ///< of a file of 16 bits per sample; else 0
  bool alpha = false;    ///< of an alpha channel, or transparent colours
};
/// Pixels in stored orientation. The image must have passed check_extents().
Samples decode_png(Bytes bytes, int png_bits, Image& out);
Samples decode_bmp(Bytes bytes, Image& out);
Samples decode_pnm(Bytes bytes, int png_bits, Image& out);
Samples decode_webp(Bytes bytes, Image& out);
/// Gives `out` the whole image's extents, and decodes at least the stored pixels of `part`; the
/// others are unspecified. The file is read to its end.
void decode_jpeg(Bytes bytes, const Rect& part, Image& out);
/// Rows and columns around `part.crop` at 1 / part.scale. Returns the rectangle `out` holds, in
/// pixels of the scaled stored image.
Rect decode_jpeg_fast(Bytes bytes, const JpegPart& part, Image& out);
/// Whether libjpeg reads the file to its end without even a warning. At an eighth of the image's
/// sides it finds every code and computes next to nothing else.
bool is_flawless_jpeg(Bytes bytes);

/// The entries of the entropy image of a lossless WebP stream of width x height pixels, each of
/// which may have a group of prefix codes of its own (RFC 9649, section 3.7.2.2); 1 without an
/// entropy image, and where the stream is damaged before it, which libwebp refuses.
int64_t webp_code_groups(Bytes stream, int64_t width, int64_t height);

/// Throws data when a side or the area is zero or too large.
void check_extents(int64_t width, int64_t height, int64_t max_pixels);

/// Little-endian numbers of BMP and WebP.
inline uint32_t u16(Bytes bytes, size_t at) {
  return bytes[at] | static_cast<uint32_t>(bytes[at + 1]) << 8;
}
inline uint32_t u32(Bytes bytes, size_t at) {
  return u16(bytes, at) | u16(bytes, at + 2) << 16;
}

/// `value` with `alpha` over white, rounded.
inline uint8_t over_white(uint32_t value, uint32_t alpha) {
  return static_cast<uint8_t>((value * alpha + 255u * (255u - alpha) + 127u) / 255u);
}

}  // namespace whisker::formats
