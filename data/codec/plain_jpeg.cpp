// A JPEG file's segments (ITU T.81, annex B) and the end of its only scan. What the scan holds,
// libjpeg reads.
#include "data/codec/plain_jpeg.h"

#include "data/codec/decode.h"
#include "data/codec/decode_formats.h"

#include <string_view>

namespace whisker {
namespace {

using Bytes = std::span<const uint8_t>;
using std::string_view_literals::operator""sv;

enum Marker : uint8_t {
  sof0 = 0xC0,
  dht = 0xC4,
  rst0 = 0xD0,
  rst7 = 0xD7,
  eoi = 0xD9,
  sos = 0xDA,
  dqt = 0xDB,
  dri = 0xDD,
  app0 = 0xE0,
  app14 = 0xEE,
  app15 = 0xEF,
  com = 0xFE,
};

std::string_view chars_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Adobe's segment says which colours: 1 is YCbCr.
bool is_another_color(Bytes app14_body) {
  return chars_of(app14_body).starts_with("Adobe") &&
         (app14_body.size() < 12 || app14_body[11] != 1);
}

// Three components of 8 bits, the second and third at full or half size.
bool is_plain_frame(Bytes body) {
  if (body.size() != 15 || body[0] != 8 || body[5] != 3) return false;
  const uint8_t luma = body[7];
  const bool known_sampling = luma == 0x11 || luma == 0x21 || luma == 0x22;
  const bool named_rgb = body[6] == 'R' && body[9] == 'G' && body[12] == 'B';
  return known_sampling && body[10] == 0x11 && body[13] == 0x11 && !named_rgb;
}

// All of the frame's components, in its order.
bool is_plain_scan(Bytes body, Bytes frame) {
  if (frame.empty() || body.size() != 10 || body[0] != 3) return false;
  const bool same_ids = body[1] == frame[6] && body[3] == frame[9] && body[5] == frame[12];
  return same_ids && body[7] == 0 && body[8] == 63 && body[9] == 0;
}

// The number of bytes up to the end marker, with it, if nothing but restart markers lies before.
std::optional<size_t> scan_size(Bytes entropy) {
  const std::string_view text = chars_of(entropy);
  for (size_t at = text.find('\xFF'); at < text.size() - 1; at = text.find('\xFF', at + 2)) {
    const uint8_t next = entropy[at + 1];
    if (next == eoi) return at + 2;
    if (next != 0 && (next < rst0 || next > rst7)) break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> plain_jpeg(std::span<const uint8_t> file) {
  std::optional<std::string> plain = plain_jpeg_again(file);
  if (plain && !formats::is_flawless_jpeg(bytes_of(*plain))) plain.reset();
  return plain;
}

std::optional<std::string> plain_jpeg_again(std::span<const uint8_t> file) {
  if (file.size() < 4 || file[0] != 0xFF || file[1] != 0xD8) return std::nullopt;
  std::string plain("\xFF\xD8\xFF\xE0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"sv);
  Bytes frame;
  for (size_t at = 2; file.size() - at >= 4;) {
    const uint8_t marker = file[at + 1];
    const size_t length = static_cast<size_t>(file[at + 2]) << 8 | file[at + 3];
    if (file[at] != 0xFF || length < 2 || length > file.size() - at - 2) break;
    const Bytes segment = file.subspan(at, 2 + length), body = segment.subspan(4);
    at += 2 + length;
    if (marker == sos) {
      const std::optional<size_t> size = scan_size(file.subspan(at));
      if (!size || !is_plain_scan(body, frame)) break;
      return plain.append(chars_of(segment)).append(chars_of(file.subspan(at, *size)));
    }
    if (marker == sof0 && (!frame.empty() || !is_plain_frame(body))) break;
    if (marker == sof0) frame = body;
    if (marker == app14 && is_another_color(body)) break;
    if (marker == sof0 || marker == dqt || marker == dht || marker == dri) {
      plain.append(chars_of(segment));
    } else if (marker != com && (marker < app0 || marker > app15)) {
      break;
    }
  }
  return std::nullopt;
}

}  // namespace whisker
