// BMP, uncompressed: 1, 4, 8, 16, 24 and 32 bits, OS/2 and Windows headers, bit fields, either row
// order. Read here rather than by stb_image, which takes palette indices past the palette and the
// rows of a truncated file from uninitialised memory.
#include "core/error.h"
#include "data/codec/decode_formats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace whisker::formats {
namespace {

constexpr size_t file_header_bytes = 14;

// One channel of a 16- or 32-bit pixel.
struct Field {
  uint32_t mask = 0;

  uint32_t level(uint32_t pixel) const {
    const uint32_t high = mask >> std::countr_zero(mask);
    const uint32_t value = (pixel & mask) >> std::countr_zero(mask);
    return static_cast<uint32_t>((uint64_t{value} * 255 + high / 2) / high);
  }
};

struct BmpHeader {
  int64_t width = 0;
  int64_t height = 0;
  bool top_down = false;
  unsigned bits = 0;
  size_t pixels_at = 0;
  std::array<Field, 4> fields{};  // R, G, B, A; only for 16 and 32 bits
  size_t palette_at = 0;
  size_t palette_entry = 0;  // bytes
  size_t palette_size = 0;   // entries

  size_t row_bytes() const { return (static_cast<size_t>(width) * bits + 31) / 32 * 4; }
};

void read_fields(Bytes bytes, size_t header_bytes, uint32_t compression, BmpHeader& header) {
  constexpr uint32_t bit_fields = 3;
  constexpr uint32_t alpha_bit_fields = 6;
  if (compression == bit_fields || compression == alpha_bit_fields) {
    const size_t at = file_header_bytes + 40;
    const bool alpha = header_bytes >= 56 || compression == alpha_bit_fields;
    const size_t count = alpha ? 4 : 3;
    if (bytes.size() < at + 4 * count) {
      fail(ErrorKind::data, "truncated BMP: the file ends in its header");
    }
    for (size_t i = 0; i < count; ++i) {
      const uint32_t mask = u32(bytes, at + 4 * i);
      const uint32_t run = mask == 0 ? 0 : mask >> std::countr_zero(mask);
      if ((mask == 0 && i < 3) || (run & (run + 1)) != 0) {
        fail(ErrorKind::data, "damaged BMP: channel mask 0x{:08X}", mask);
      }
      header.fields[i].mask = mask;
    }
  } else if (header.bits == 16) {
    header.fields = {Field{0x7C00}, Field{0x03E0}, Field{0x001F}, Field{0}};
  } else {
    header.fields = {Field{0x00FF0000}, Field{0x0000FF00}, Field{0x000000FF}, Field{0}};
  }
}

BmpHeader read_bmp_header(Bytes bytes) {
  BmpHeader header;
  const size_t header_bytes = u32(bytes, file_header_bytes);
  header.pixels_at = u32(bytes, 10);
  const bool os2 = header_bytes == 12;
  if (!os2 && header_bytes != 40 && header_bytes != 52 && header_bytes != 56 &&
      header_bytes != 64 && header_bytes != 108 && header_bytes != 124) {
    fail(ErrorKind::data, "BMP with a header of {} bytes, which no known version has",
         header_bytes);
  }
  if (bytes.size() < file_header_bytes + header_bytes) {
    fail(ErrorKind::data, "truncated BMP: the file ends in its header");
  }
  uint32_t compression = 0;
  uint32_t colors = 0;
  if (os2) {
    header.width = u16(bytes, 18);
    header.height = u16(bytes, 20);
    header.bits = u16(bytes, 24);
  } else {
    header.width = static_cast<int32_t>(u32(bytes, 18));
    const int64_t height = static_cast<int32_t>(u32(bytes, 22));
    header.top_down = height < 0;
    header.height = height < 0 ? -height : height;
    header.bits = u16(bytes, 28);
    compression = u32(bytes, 30);
    colors = u32(bytes, 46);
  }
  if (compression == 1 || compression == 2) {
    fail(ErrorKind::data, "run-length encoded BMP; only uncompressed ones are supported");
  }
  const bool fields = (compression == 3 || compression == 6) && header_bytes != 64;
  if (compression != 0 && !fields) {
    fail(ErrorKind::data, "BMP with compression {}; only uncompressed ones are supported",
         compression);
  }
  const bool known_bits = header.bits == 1 || header.bits == 4 || header.bits == 8 ||
                          header.bits == 16 || header.bits == 24 || header.bits == 32;
  if (!known_bits || (fields && header.bits != 16 && header.bits != 32)) {
    fail(ErrorKind::data, "BMP with {} bits per pixel{}; 1, 4, 8, 16, 24 and 32 are supported",
         header.bits, fields ? " and channel masks" : "");
  }
  if (header.bits == 16 || header.bits == 32) read_fields(bytes, header_bytes, compression, header);
  if (header.bits <= 8) {
    header.palette_at = file_header_bytes + header_bytes;
    header.palette_entry = os2 ? 3 : 4;
    const size_t all = size_t{1} << header.bits;
    const size_t available =
        (std::min(bytes.size(), std::max(header.pixels_at, header.palette_at)) -
         header.palette_at) /
        header.palette_entry;
    header.palette_size = std::min({colors == 0 ? all : size_t{colors}, all, available});
    if (header.palette_size == 0) fail(ErrorKind::data, "damaged BMP: no palette");
  }
  return header;
}

// Palette indices of row `from`, most significant bits first.
void expand_palette(const BmpHeader& header, const uint8_t* from,
                    const std::array<std::array<uint8_t, 3>, 256>& palette, uint8_t* rgb) {
  const unsigned per_byte = 8 / header.bits;
  const unsigned mask = (1u << header.bits) - 1;
  for (size_t x = 0; x < static_cast<size_t>(header.width); ++x) {
    const unsigned shift = header.bits * (per_byte - 1 - static_cast<unsigned>(x % per_byte));
    const auto& color = palette[(from[x / per_byte] >> shift) & mask];
    std::copy(color.begin(), color.end(), rgb + 3 * x);
  }
}

void expand_fields(const BmpHeader& header, const uint8_t* from, uint8_t* rgb) {
  const size_t bytes = header.bits / 8;
  for (size_t x = 0; x < static_cast<size_t>(header.width); ++x) {
    uint32_t pixel = 0;
    for (size_t i = 0; i < bytes; ++i) {
      pixel |= static_cast<uint32_t>(from[bytes * x + i]) << (8 * i);
    }
    const uint32_t alpha = header.fields[3].mask == 0 ? 255 : header.fields[3].level(pixel);
    for (size_t c = 0; c < 3; ++c) {
      rgb[3 * x + c] = over_white(header.fields[c].level(pixel), alpha);
    }
  }
}

}  // namespace

StoredHeader bmp_header(Bytes bytes) {
  const BmpHeader header = read_bmp_header(bytes);
  check_extents(header.width, header.height, std::numeric_limits<int64_t>::max());
  return {static_cast<int>(header.height), static_cast<int>(header.width), 1};
}

Samples decode_bmp(Bytes bytes, Image& out) {
  const BmpHeader header = read_bmp_header(bytes);
  const auto height = static_cast<size_t>(header.height);
  const size_t need = header.row_bytes() * height;
  if (header.pixels_at > bytes.size() || bytes.size() - header.pixels_at < need) {
    fail(ErrorKind::data, "truncated BMP: {} bytes of pixels, {} expected",
         bytes.size() - std::min(bytes.size(), header.pixels_at), need);
  }
  std::array<std::array<uint8_t, 3>, 256> palette{};
  for (size_t i = 0; i < header.palette_size; ++i) {
    const uint8_t* bgr = bytes.data() + header.palette_at + header.palette_entry * i;
    palette[i] = {bgr[2], bgr[1], bgr[0]};
  }
  out.reshape(static_cast<int>(header.height), static_cast<int>(header.width));
  for (size_t y = 0; y < height; ++y) {
    const size_t stored = header.top_down ? y : height - 1 - y;
    const uint8_t* from = bytes.data() + header.pixels_at + header.row_bytes() * stored;
    uint8_t* rgb = out.row(static_cast<int>(y));
    if (header.bits <= 8) {
      expand_palette(header, from, palette, rgb);
    } else if (header.bits == 24) {
      for (int x = 0; x < out.width; ++x) {
        rgb[3 * x] = from[3 * x + 2];
        rgb[3 * x + 1] = from[3 * x + 1];
        rgb[3 * x + 2] = from[3 * x];
      }
    } else {
      expand_fields(header, from, rgb);
    }
  }
  return {.alpha = header.bits >= 16 && header.fields[3].mask != 0};
}

}  // namespace whisker::formats
