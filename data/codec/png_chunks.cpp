#include "data/codec/png_chunks.h"

#include "core/error.h"
#include "core/io/crc32.h"
#include "data/codec/exif.h"

#include <array>
#include <cstddef>
#include <string_view>

namespace whisker::formats {
namespace {

constexpr size_t signature_bytes = 8;

uint32_t big_endian_u32(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at]) << 24 | static_cast<uint32_t>(bytes[at + 1]) << 16 |
         static_cast<uint32_t>(bytes[at + 2]) << 8 | bytes[at + 3];
}

void read_header_chunk(std::span<const uint8_t> body, PngChunks& png) {
  if (body.size() != 13) fail(ErrorKind::data, "damaged PNG: IHDR of {} bytes", body.size());
  png.width = big_endian_u32(body, 0);
  png.height = big_endian_u32(body, 4);
  png.bit_depth = body[8];
  png.color_type = body[9];
  png.interlaced = body[12] == 1;
  // Bit b of allowed[type]: a depth of b bits goes with this color type (table 8).
  constexpr uint32_t any = 1u << 1 | 1u << 2 | 1u << 4 | 1u << 8 | 1u << 16;
  constexpr uint32_t whole = 1u << 8 | 1u << 16;
  constexpr std::array<uint32_t, 7> allowed = {any, 0, whole, any & ~(1u << 16), whole, 0, whole};
  if (body[9] > 6 || body[8] > 16 || (allowed[body[9]] >> body[8] & 1) == 0) {
    fail(ErrorKind::data, "damaged PNG: color type {} with {} bits", png.color_type, png.bit_depth);
  }
  if (body[10] != 0 || body[11] != 0 || body[12] > 1) {
    fail(ErrorKind::data, "PNG with unknown compression {}, filter {} or interlacing {}",
         int{body[10]}, int{body[11]}, int{body[12]});
  }
}

void read_palette(std::span<const uint8_t> body, PngChunks& png) {
  if (png.color_type != 3) return;  // a suggestion only
  if (!png.palette.empty()) fail(ErrorKind::data, "damaged PNG: two palettes");
  if (body.empty() || body.size() % 3 != 0 || body.size() > size_t{3} << png.bit_depth) {
    fail(ErrorKind::data, "damaged PNG: palette of {} bytes with {} bits per pixel", body.size(),
         png.bit_depth);
  }
  png.palette = body;
}

void read_transparency(std::span<const uint8_t> body, PngChunks& png) {
  if (png.color_type >= 4) return;  // has alpha already
  const bool fits = png.color_type == 0   ? body.size() == 2
                    : png.color_type == 2 ? body.size() == 6
                                          : !body.empty() && body.size() <= png.palette.size() / 3;
  if (!fits) fail(ErrorKind::data, "damaged PNG: transparency of {} bytes", body.size());
  png.transparency = body;
}

}  // namespace

PngChunks read_png_chunks(std::span<const uint8_t> bytes) {
  PngChunks png;
  bool first = true;
  for (size_t at = signature_bytes;;) {
    constexpr size_t overhead = 12;  // length, type and CRC
    if (bytes.size() < at + overhead) fail(ErrorKind::data, "truncated PNG: no end chunk");
    const size_t length = big_endian_u32(bytes, at);
    if (length > bytes.size() - at - overhead) {
      fail(ErrorKind::data, "truncated PNG: a chunk of {} bytes where {} are left", length,
           bytes.size() - at - overhead);
    }
    const auto checked = bytes.subspan(at + 4, 4 + length);
    if (crc32(std::as_bytes(checked)) != big_endian_u32(bytes, at + 8 + length)) {
      fail(ErrorKind::data, "damaged PNG: wrong checksum of the chunk at byte {}", at);
    }
    const std::string_view type(reinterpret_cast<const char*>(checked.data()), 4);
    const auto body = checked.subspan(4);
    at += overhead + length;
    if (first != (type == "IHDR")) {
      fail(ErrorKind::data, "damaged PNG: IHDR is not its first chunk");
    }
    first = false;
    if (type == "IHDR") {
      read_header_chunk(body, png);
    } else if (type == "PLTE") {
      read_palette(body, png);
    } else if (type == "tRNS") {
      if (png.deflate.empty()) read_transparency(body, png);
    } else if (type == "eXIf") {
      png.orientation = exif_orientation(body);
    } else if (type == "IDAT") {
      if (!body.empty()) png.deflate.push_back(body);
    } else if (type == "IEND") {
      if (png.deflate.empty()) fail(ErrorKind::data, "damaged PNG: no image data");
      if (png.color_type == 3 && png.palette.empty()) {
        fail(ErrorKind::data, "damaged PNG: no palette");
      }
      return png;
    } else if ((checked[0] & 0x20) == 0) {
      fail(ErrorKind::data, "PNG with an unknown critical chunk at byte {}",
           at - overhead - length);
    }
  }
}

}  // namespace whisker::formats
