#include "data/codec/image_end.h"

#include "core/error.h"
#include "data/codec/decode_formats.h"
#include "data/codec/unsupported_formats.h"

#include <string_view>

namespace whisker {
namespace {

using formats::Bytes;

uint32_t png_u32(Bytes bytes, size_t at) {
  return uint32_t{bytes[at]} << 24 | uint32_t{bytes[at + 1]} << 16 | uint32_t{bytes[at + 2]} << 8 |
         uint32_t{bytes[at + 3]};
}

// Behind the EOI marker. Segments are skipped whole: a thumbnail in one has an EOI of its own.
size_t jpeg_end(Bytes bytes) {
  for (size_t at = 2; at + 1 < bytes.size();) {
    const unsigned marker = bytes[at + 1];
    if (bytes[at] != 0xff || marker == 0xff) {
      ++at;  // coded data, or a byte that fills up
    } else if (marker == 0xd9) {
      return at + 2;
    } else if (marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd7)) {
      at += 2;  // an FF of coded data, or a restart marker
    } else if (at + 3 < bytes.size()) {
      at += 2u + (unsigned{bytes[at + 2]} << 8 | unsigned{bytes[at + 3]});
    } else {
      break;
    }
  }
  return bytes.size() + 1;  // cut
}

// Behind the IEND chunk.
size_t png_end(Bytes bytes) {
  constexpr size_t around = 12;  // a chunk's length, name and CRC
  size_t at = 8;
  while (at + around <= bytes.size()) {
    const bool last = png_u32(bytes, at + 4) == 0x49454e44;  // "IEND"
    at += around + png_u32(bytes, at);
    if (last) return at;
  }
  return bytes.size() + 1;
}

// The end that the image states; beyond the file's where the file is cut.
std::optional<size_t> stated_end(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr size_t riff_header = 8;
  if (text.starts_with("\xff\xd8")) return jpeg_end(bytes);
  if (text.starts_with("\x89PNG")) return png_end(bytes);
  if (text.starts_with("BM") && bytes.size() > 6) return formats::u32(bytes, 2);
  if (text.starts_with("RIFF") && bytes.size() > riff_header) {
    const size_t size = formats::u32(bytes, 4);
    return riff_header + size + size % 2;
  }
  return begins_as_pnm(bytes) ? formats::pnm_end(bytes) : std::nullopt;
}

}  // namespace

std::optional<size_t> image_end(std::span<const uint8_t> bytes) {
  try {
    const std::optional<size_t> end = stated_end(bytes);
    return end && *end > 0 && *end <= bytes.size() ? end : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace whisker
