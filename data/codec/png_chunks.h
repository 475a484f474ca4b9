// The chunks of a PNG file (PNG specification, third edition, sections 5 and 11): checks every
// length and CRC, so that later code never sees a damaged or truncated file.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace whisker::formats {

struct PngText {
  std::span<const uint8_t> bytes;
  bool compressed = false;  ///< a zlib stream
};

struct PngChunks {
  int64_t width = 0;
  int64_t height = 0;
  int bit_depth = 0;   ///< per sample: 1, 2, 4, 8 or 16
  int color_type = 0;  ///< 0 gray, 2 RGB, 3 palette, 4 gray + alpha, 6 RGBA
  bool interlaced = false;
  std::span<const uint8_t> exif;  ///< eXIf
  /// The bodies of tEXt, zTXt and iTXt chunks that may say the orientation, behind their keywords:
  /// "Raw profile type exif" and "XML:com.adobe.xmp".
  PngText exif_profile, xmp;
  std::span<const uint8_t> palette;               ///< PLTE: 3 bytes per entry
  std::span<const uint8_t> transparency;          ///< tRNS, where it is allowed
  std::vector<std::span<const uint8_t>> deflate;  ///< the bodies of IDAT, in order
};

/// Throws data for a missing, truncated, damaged or unknown critical chunk. Bytes after IEND are
/// ignored.
PngChunks read_png_chunks(std::span<const uint8_t> bytes);

}  // namespace whisker::formats
