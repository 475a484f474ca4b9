// The segments (ITU T.81, annex B), then every block of the scan.
#include "data/plain_jpeg.h"

#include "data/jpeg_codes.h"

#include <array>
#include <cstring>
#include <string_view>

namespace whisker {
namespace {

using formats::block_values;
using formats::EntropyBits;
using formats::HuffmanTable;
using formats::Step;
using Bytes = std::span<const uint8_t>;
using std::string_view_literals::operator""sv;

enum Marker : uint8_t {
  sof0 = 0xC0,
  dht = 0xC4,
  rst0 = 0xD0,
  eoi = 0xD9,
  sos = 0xDA,
  dqt = 0xDB,
  dri = 0xDD,
  app0 = 0xE0,
  app14 = 0xEE,
  app15 = 0xEF,
  com = 0xFE,
};

// A thread's own, as the next file's are often the same.
struct Tables {
  std::array<HuffmanTable, 2> direct, alternating;
};

struct Component {
  uint8_t id = 0, h = 0, v = 0, quantisation = 0;
  const HuffmanTable* direct = nullptr;
  const HuffmanTable* alternating = nullptr;
};

// Everything up to the scan.
class Frame {
 public:
  explicit Frame(Tables& tables) : tables_(tables) {}

  // Reads one segment; false unless it may stand in a plain JPEG.
  bool read(uint8_t marker, Bytes body) {
    switch (marker) {
      case dqt:
        return read_quantisation(body);
      case dht:
        return read_huffman(body);
      case sof0:
        return read_frame(body);
      case dri:
        if (body.size() != 2) return false;
        restart_interval_ = body[0] << 8 | body[1];
        return true;
      case app14: {
        // Adobe's says which colours: 1 is YCbCr.
        const bool adobe = body.size() >= 5 && std::memcmp(body.data(), "Adobe", 5) == 0;
        return !adobe || (body.size() >= 12 && body[11] == 1);
      }
      default:
        return (marker >= app0 && marker <= app15) || marker == com;
    }
  }

  bool read_scan(Bytes body) {
    if (components_[0].h == 0 || body.size() != 10 || body[0] != 3) return false;
    for (size_t i = 0; i < 3; ++i) {
      Component& c = components_[i];
      const unsigned direct = body[2 + 2 * i] >> 4, alternating = body[2 + 2 * i] & 15;
      if (body[1 + 2 * i] != c.id || direct > 1 || alternating > 1) return false;
      c.direct = &tables_.direct[direct];
      c.alternating = &tables_.alternating[alternating];
      if (!direct_[direct] || !alternating_[alternating]) return false;
      if (!quantisation_[c.quantisation]) return false;
    }
    return body[7] == 0 && body[8] == block_values - 1 && body[9] == 0;
  }

  // Walks the scan's blocks; where the file ends, after its end marker, or null.
  const uint8_t* walk(Bytes entropy) const {
    EntropyBits bits(entropy);
    const int64_t units = int64_t{ceil_ratio(width_, 8 * components_[0].h)} *
                          ceil_ratio(height_, 8 * components_[0].v);
    for (int64_t unit = 0; unit < units; ++unit) {
      if (restart_interval_ > 0 && unit > 0 && unit % restart_interval_ == 0) {
        const int64_t number = (unit / restart_interval_ - 1) % 8;
        if (!bits.pass(static_cast<uint8_t>(rst0 + number))) return nullptr;
      }
      for (const Component& c : components_) {
        for (int block = 0; block < c.h * c.v; ++block) {
          if (!walk_block(bits, c)) return nullptr;
        }
      }
    }
    return bits.pass(eoi) ? bits.at() : nullptr;
  }

 private:
  static int ceil_ratio(int a, int b) { return (a + b - 1) / b; }

  static bool walk_block(EntropyBits& bits, const Component& c) {
    const Step first = c.direct->step(bits.next());
    if (first.bits == 0 || !bits.take(first.bits)) return false;
    for (int place = 1; place < block_values;) {
      const uint64_t ahead = bits.next();
      Step step = c.alternating->steps(ahead);
      if (step.bits == 0 || place > step.limit) {  // or the block ends among them
        step = c.alternating->step(ahead);
        if (step.bits == 0 || place > step.limit) return false;
      }
      if (!bits.take(step.bits)) return false;
      if (step.ends) break;
      place += step.advance;
    }
    return true;
  }

  bool read_quantisation(Bytes body) {
    constexpr size_t table_bytes = 1 + block_values;
    for (; body.size() >= table_bytes; body = body.subspan(table_bytes)) {
      if (body[0] > 3) return false;  // also 16-bit values
      for (size_t i = 1; i < table_bytes; ++i) {
        if (body[i] == 0) return false;
      }
      quantisation_[body[0]] = true;
    }
    return body.empty();
  }

  bool read_huffman(Bytes body) {
    constexpr size_t head = 17;
    while (body.size() >= head) {
      const unsigned kind = body[0] >> 4, number = body[0] & 15;
      const Bytes counts = body.subspan(1, 16);
      size_t symbols = 0;
      for (const uint8_t count : counts) symbols += count;
      if (kind > 1 || number > 1 || symbols > body.size() - head) return false;
      HuffmanTable& table = kind == 0 ? tables_.direct[number] : tables_.alternating[number];
      if (!table.define(body.subspan(1, 16 + symbols), kind == 0)) return false;
      (kind == 0 ? direct_ : alternating_)[number] = true;
      body = body.subspan(head + symbols);
    }
    return body.empty();
  }

  bool read_frame(Bytes body) {
    if (components_[0].h != 0 || body.size() != 15 || body[0] != 8 || body[5] != 3) return false;
    height_ = body[1] << 8 | body[2];
    width_ = body[3] << 8 | body[4];
    if (height_ == 0 || width_ == 0) return false;
    for (size_t i = 0; i < 3; ++i) {
      const Bytes spec = body.subspan(6 + 3 * i, 3);
      components_[i] = {.id = spec[0],
                        .h = static_cast<uint8_t>(spec[1] >> 4),
                        .v = static_cast<uint8_t>(spec[1] & 15),
                        .quantisation = spec[2]};
      if (spec[2] > 3) return false;
    }
    const auto& [y, cb, cr] = components_;
    const bool luma = (y.h == 1 && y.v == 1) || (y.h == 2 && (y.v == 1 || y.v == 2));
    const bool chroma = cb.h == 1 && cb.v == 1 && cr.h == 1 && cr.v == 1;
    const bool named_rgb = y.id == 'R' && cb.id == 'G' && cr.id == 'B';
    const bool apart = y.id != cb.id && y.id != cr.id && cb.id != cr.id;
    return luma && chroma && apart && !named_rgb;
  }

  Tables& tables_;
  std::array<bool, 2> direct_{}, alternating_{};  // this file has defined them
  std::array<bool, 4> quantisation_{};
  std::array<Component, 3> components_{};
  int height_ = 0, width_ = 0;
  int restart_interval_ = 0;
};

// The file without what is not needed, if `allows` says so of every segment (marker, body) before
// the scan, and `scan_end` of the scan's header and what follows it where the file ends.
template <class Allows, class ScanEnd>
std::optional<std::string> strip(Bytes file, Allows&& allows, ScanEnd&& scan_end) {
  if (file.size() < 4 || file[0] != 0xFF || file[1] != 0xD8) return std::nullopt;
  std::string plain("\xFF\xD8\xFF\xE0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"sv);
  for (size_t at = 2; file.size() - at >= 4;) {
    const uint8_t marker = file[at + 1];
    const size_t length = static_cast<size_t>(file[at + 2]) << 8 | file[at + 3];
    if (file[at] != 0xFF || length < 2 || length > file.size() - at - 2) return std::nullopt;
    const Bytes body = file.subspan(at + 4, length - 2);
    const auto* const begin = reinterpret_cast<const char*>(file.data() + at);
    at += 2 + length;
    if (marker == sos) {
      const uint8_t* const end = scan_end(body, file.subspan(at));
      if (!end) return std::nullopt;
      const auto* const behind = reinterpret_cast<const char*>(end);
      plain.reserve(plain.size() + static_cast<size_t>(behind - begin));  // metadata may be large
      plain.append(begin, behind);
      return plain;
    }
    if (!allows(marker, body)) return std::nullopt;
    const bool needed = marker == dqt || marker == dht || marker == sof0 || marker == dri;
    if (needed) plain.append(begin, 2 + length);
  }
  return std::nullopt;
}

// Behind the first end marker.
const uint8_t* find_end(Bytes entropy) {
  const uint8_t* const end = entropy.data() + entropy.size();
  for (const uint8_t* at = entropy.data(); end - at >= 2; ++at) {
    at = static_cast<const uint8_t*>(std::memchr(at, 0xFF, static_cast<size_t>(end - at - 1)));
    if (!at) return nullptr;
    if (at[1] == eoi) return at + 2;
  }
  return nullptr;
}

}  // namespace

std::optional<std::string> plain_jpeg(std::span<const uint8_t> file) {
  thread_local Tables tables;
  Frame frame(tables);
  return strip(
      file, [&](uint8_t marker, Bytes body) { return frame.read(marker, body); },
      [&](Bytes head, Bytes rest) { return frame.read_scan(head) ? frame.walk(rest) : nullptr; });
}

std::optional<std::string> plain_jpeg_again(std::span<const uint8_t> file) {
  return strip(
      file, [](uint8_t, Bytes) { return true; }, [](Bytes, Bytes rest) { return find_end(rest); });
}

}  // namespace whisker
