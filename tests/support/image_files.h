// Image files for tests, written in memory: JPEG by libjpeg, PNG by a small writer of our own,
// and the EXIF block both can carry.
#pragma once

#include "data/codec/image.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace whisker::test {

using Buffer = std::vector<uint8_t>;

/// A smooth image with edges in every direction and all three channels different.
Image sample_image(int width, int height);

/// A TIFF block whose first directory holds orientation `value`.
Buffer exif_block(int value, bool little_endian);

enum class JpegColor { gray, rgb, ycc, cmyk, ycck };

struct JpegSpec {
  JpegColor color = JpegColor::ycc;
  int h_samples = 2;  ///< luma samples per chroma sample, across
  int v_samples = 2;  ///< and down
  bool progressive = false;
  bool separate_scans = false;  ///< one per component, of a sequential file
  int quality = 90;
  int restart_rows = 0;
  int orientation = 0;       ///< 0: no EXIF
  bool adobe_marker = true;  ///< for CMYK and YCCK: complements, as Photoshop writes them
};

Buffer write_jpeg(const Image& image, const JpegSpec& spec = {});

struct PngSpec {
  int width = 1;
  int height = 1;
  int bit_depth = 8;
  int color_type = 2;
  bool interlaced = false;
  Buffer palette = {};       ///< PLTE
  Buffer transparency = {};  ///< tRNS
  Buffer exif = {};          ///< eXIf
};

/// The sample of channel c at (x, y), below 2^bit_depth.
using PngSample = std::function<uint32_t(int x, int y, int c)>;

int png_channels(int color_type);
/// Rows cycle through all five filters; the data are split over two IDAT chunks.
Buffer write_png(const PngSpec& spec, const PngSample& sample);
/// A PNG chunk with its length and CRC.
void append_png_chunk(Buffer& file, const std::string& type, std::span<const uint8_t> body);
Buffer deflate(std::span<const uint8_t> bytes);

/// A 24-bit BMP.
Buffer write_bmp(const Image& image);

}  // namespace whisker::test
