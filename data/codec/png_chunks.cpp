#include "data/codec/png_chunks.h"

#include "core/error.h"
#include "core/io/crc32.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

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

// What comes before the first zero byte, and what behind it.
std::pair<std::span<const uint8_t>, std::span<const uint8_t>> cut_at_zero(
    std::span<const uint8_t> bytes) {
  const auto zero = std::ranges::find(bytes, uint8_t{0});
  if (zero == bytes.end()) return {bytes, {}};
  const auto before = static_cast<size_t>(zero - bytes.begin());
  return {bytes.first(before), bytes.subspan(before + 1)};
}

// Sections 11.3.3.2 to 11.3.3.4. What is malformed is left out: no pixel depends on it.
void read_text(std::string_view type, std::span<const uint8_t> body, PngChunks& png) {
  const auto [key, rest] = cut_at_zero(body);
  const std::string_view keyword(reinterpret_cast<const char*>(key.data()), key.size());
  PngText* const text = keyword == "Raw profile type exif" ? &png.exif_profile
                        : keyword == "XML:com.adobe.xmp"   ? &png.xmp
                                                           : nullptr;
  if (!text) return;
  if (type == "tEXt") {
    *text = {.bytes = rest};
  } else if (type == "zTXt" && !rest.empty() && rest[0] == 0) {
    *text = {.bytes = rest.subspan(1), .compressed = true};
  } else if (type == "iTXt" && rest.size() >= 2 && rest[0] <= 1 && rest[1] == 0) {
    const auto after_language = cut_at_zero(rest.subspan(2)).second;
    *text = {.bytes = cut_at_zero(after_language).second, .compressed = rest[0] == 1};
  }
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
      png.exif = body;
    } else if (type == "tEXt" || type == "zTXt" || type == "iTXt") {
      read_text(type, body, png);
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
