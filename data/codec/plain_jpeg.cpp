// The Huffman codes of a baseline JPEG's entropy-coded data (ITU T.81, annexes C and F.2.2), as far
// as finding where each ends: no value is ever computed. Then the segments (annex B), and every
// block of the scan.
#include "data/codec/plain_jpeg.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

namespace whisker {
namespace {

using Bytes = std::span<const uint8_t>;
using std::string_view_literals::operator""sv;

constexpr int block_values = 64;

// What a Huffman code says, found by the 16 bits that begin with it.
struct Code {
  uint8_t bits = 0;  // of the code and the value that follows it; 0: no such code
  uint8_t run = 0;   // zero values before that value
  bool value = false;
};

class HuffmanTable {
 public:
  /// The codes of lengths 1 to 16 in order, as a DHT segment lists them, then their symbols; false
  /// when they make no code, or hold a symbol that baseline images of 8 bits have not. `direct`:
  /// for the first value of a block.
  bool define(Bytes definition, bool direct) {
    if (std::ranges::equal(definition, definition_)) return valid_;  // most files share theirs
    definition_.assign(definition.begin(), definition.end());
    valid_ = assign_codes(direct);
    return valid_;
  }

  /// What the first of `bits`, the next ones at the top, are.
  Code find(uint64_t bits) const {
    const Code code = short_codes_[bits >> (64 - short_bits)];
    return code.bits != 0 ? code : codes_[bits >> (64 - longest)];
  }

 private:
  static constexpr unsigned longest = 16, short_bits = 10;

  bool assign_codes(bool direct) {
    codes_.assign(size_t{1} << longest, {});
    short_codes_ = {};
    size_t at = 0, next = longest;
    for (unsigned length = 1; length <= longest; ++length) {
      const size_t span = size_t{1} << (longest - length);
      for (int i = 0; i < definition_[length - 1]; ++i, at += span) {
        const uint8_t symbol = definition_[next++];
        const auto size = static_cast<uint8_t>(direct ? symbol : symbol % 16);
        const auto run = static_cast<uint8_t>(direct ? 0 : symbol / 16);
        // All ones is no code (T.81, annex C); runs without a value are for progressive files.
        if (at + span >= codes_.size() || size > (direct ? 11 : 10)) return false;
        if (!direct && size == 0 && run > 0 && run < 15) continue;
        const Code code{static_cast<uint8_t>(length + size), run, direct || size > 0};
        std::fill_n(&codes_[at], span, code);
        constexpr unsigned more = longest - short_bits;
        if (length <= short_bits) std::fill_n(&short_codes_[at >> more], span >> more, code);
      }
    }
    return true;
  }

  std::array<Code, size_t{1} << short_bits> short_codes_{};  // those in the first cache
  std::vector<Code> codes_;
  std::vector<uint8_t> definition_;
  bool valid_ = false;
};

// The bits between two markers. Beyond the last one come zeros, which take() refuses.
class EntropyBits {
 public:
  explicit EntropyBits(Bytes bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  /// The next ones at the top; at least 32 of them where there are so many.
  uint64_t next() {
    if (count_ < 32) refill();
    return bits_;
  }
  /// False when there are not so many.
  bool take(int count) {
    bits_ <<= count;
    count_ -= count;
    return count_ >= 0;
  }
  /// Whether nothing but the rest of a byte is left before `marker`, which is passed.
  bool pass(uint8_t marker) {
    refill();
    if (count_ >= 8 || end_ - at_ < 2 || at_[0] != 0xFF || at_[1] != marker) return false;
    at_ += 2;
    bits_ = 0;
    count_ = 0;
    return true;
  }
  const uint8_t* at() const { return at_; }

 private:
  void refill() {
    while (count_ <= 56 && at_ != end_) {
      const uint8_t byte = *at_;
      if (byte == 0xFF) {
        if (end_ - at_ < 2 || at_[1] != 0) return;  // a marker, or the file ends
        ++at_;
      }
      ++at_;
      bits_ |= uint64_t{byte} << (56 - count_);
      count_ += 8;
    }
  }

  const uint8_t* at_;
  const uint8_t* end_;
  uint64_t bits_ = 0;  // the next ones at the top
  int count_ = 0;
};

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

// A thread's own, as the next file's are often the same: those of direct values, then the others.
using Tables = std::array<HuffmanTable, 4>;

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
      const size_t direct = body[2 + 2 * i] >> 4, alternating = 2 + (body[2 + 2 * i] & 15u);
      if (body[1 + 2 * i] != c.id || direct > 1 || alternating > 3) return false;
      if (!defined_[direct] || !defined_[alternating] || !quantisation_[c.quantisation]) {
        return false;
      }
      c.direct = &tables_[direct];
      c.alternating = &tables_[alternating];
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
    const HuffmanTable* table = c.direct;
    for (int values = 0; values < block_values; table = c.alternating) {
      const Code code = table->find(bits.next());
      if (code.bits == 0 || !bits.take(code.bits)) return false;
      if (!code.value && code.run == 0) return true;  // the rest is zero
      // A run of 16 zeros goes before another value.
      values += code.run + 1;
      if (values > (code.value ? block_values : block_values - 1)) return false;
    }
    return true;
  }

  bool read_quantisation(Bytes body) {
    constexpr size_t table_bytes = 1 + block_values;
    for (; body.size() >= table_bytes; body = body.subspan(table_bytes)) {
      if (body[0] > 3) return false;  // also 16-bit values
      if (std::ranges::count(body.subspan(1, block_values), 0) > 0) return false;
      quantisation_[body[0]] = true;
    }
    return body.empty();
  }

  bool read_huffman(Bytes body) {
    constexpr size_t head = 17;
    while (body.size() >= head) {
      const unsigned kind = body[0] >> 4, number = body[0] & 15;
      size_t symbols = 0;
      for (const uint8_t count : body.subspan(1, 16)) symbols += count;
      if (kind > 1 || number > 1 || symbols > std::min<size_t>(body.size() - head, 256)) {
        return false;
      }
      const size_t table = 2 * kind + number;
      if (!tables_[table].define(body.subspan(1, 16 + symbols), kind == 0)) return false;
      defined_[table] = true;
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
  std::array<bool, 4> defined_{};  // in this file
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
      return plain.append(begin, reinterpret_cast<const char*>(end));
    }
    if (!allows(marker, body)) return std::nullopt;
    const bool needed = marker == dqt || marker == dht || marker == sof0 || marker == dri;
    if (needed) plain.append(begin, 2 + length);
  }
  return std::nullopt;
}

// Behind the first end marker.
const uint8_t* find_end(Bytes entropy) {
  const std::string_view text(reinterpret_cast<const char*>(entropy.data()), entropy.size());
  const size_t at = text.find("\xFF\xD9"sv);
  return at == std::string_view::npos ? nullptr : entropy.data() + at + 2;
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
