// The Huffman codes of a baseline JPEG's entropy-coded data (ITU T.81, annexes C and F.2.2), as far
// as finding where each ends: no value is ever computed. Then the segments (annex B), and every
// block of the scan.
#include "data/codec/plain_jpeg.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

namespace whisker {
namespace {

using Bytes = std::span<const uint8_t>;
using std::string_view_literals::operator""sv;

constexpr int block_values = 64;

// What Huffman codes say: how many bits they and what follows them take, and how far they move on
// in the block.
struct Step {
  uint8_t bits = 0;     // 0: no such code
  uint8_t advance = 0;  // places
  uint8_t limit = 0;    // the last place in the block where this may stand
  bool ends = false;    // the block
};

// One look finds all the codes that lie whole, with what follows them, in the next many_bits; a
// code for which these are too few is found alone, up to fast_bits by another look, else by length.
class HuffmanTable {
 public:
  /// The codes of lengths 1 to 16 in order, as a DHT segment lists them, then their symbols; false
  /// when they make no code, or hold a symbol that baseline images of 8 bits have not. `direct`:
  /// for the first value of a block.
  bool define(std::span<const uint8_t> definition, bool direct);

  /// What the first of `bits`, the next ones at the top, are.
  Step step(uint64_t bits) const {
    const Step& fast = fast_[bits >> (64 - fast_bits)];
    return fast.bits != 0 ? fast : long_step(static_cast<uint32_t>(bits >> (64 - longest)));
  }
  /// The same of several codes at once, for values behind the first; none when bits is 0 there.
  Step steps(uint64_t bits) const { return many_[bits >> (64 - many_bits)]; }

 private:
  static constexpr unsigned longest = 16;
  static constexpr unsigned fast_bits = 10;
  static constexpr unsigned many_bits = 11;
  struct Length {
    uint32_t begin = 0, end = 0;  // its codes, left-aligned
    uint16_t first = 0;           // in steps_
  };

  bool assign_codes(bool direct);
  void join_codes();
  Step long_step(uint32_t sixteen_bits) const;

  std::array<Step, 1u << fast_bits> fast_{};
  std::array<Step, 1u << many_bits> many_{};
  std::array<Step, 256> steps_{};  // in the order of the codes
  std::array<Length, longest + 1> by_length_{};
  std::vector<uint8_t> definition_;
  bool valid_ = false;
};

Step direct_step(unsigned length, uint8_t symbol) {
  return {.bits = static_cast<uint8_t>(length + symbol), .advance = 1};
}
Step alternating_step(unsigned length, uint8_t symbol) {
  const unsigned run = symbol / 16, size = symbol % 16;
  if (size == 0 && run < 15) {  // runs without a value are for progressive files
    if (run > 0) return {};
    return {.bits = static_cast<uint8_t>(length), .limit = block_values - 1, .ends = true};
  }
  const unsigned last = size == 0 ? block_values - 2 : block_values - 1;
  return {.bits = static_cast<uint8_t>(length + size),
          .advance = static_cast<uint8_t>(run + 1),
          .limit = static_cast<uint8_t>(last - run)};
}

bool HuffmanTable::define(std::span<const uint8_t> definition, bool direct) {
  if (std::ranges::equal(definition, definition_)) return valid_;  // most files share theirs
  definition_.assign(definition.begin(), definition.end());
  valid_ = assign_codes(direct);
  if (valid_ && !direct) join_codes();
  return valid_;
}

bool HuffmanTable::assign_codes(bool direct) {
  constexpr uint32_t fast_span = 1u << (longest - fast_bits);
  fast_.fill({});
  const auto counts = std::span(definition_).first(longest);
  const auto symbols = std::span(definition_).subspan(longest);
  uint32_t code = 0;  // left-aligned in 16 bits
  size_t next = 0;
  for (unsigned length = 1; length <= longest; ++length) {
    const uint32_t span = 1u << (longest - length);
    by_length_[length] = {.begin = code, .end = code, .first = static_cast<uint16_t>(next)};
    for (int i = 0; i < counts[length - 1]; ++i, ++next, code += span) {
      // All ones is no code (T.81, annex C).
      if (code + span >= 1u << longest || next == steps_.size()) return false;
      const uint8_t symbol = symbols[next];
      if (!(direct ? symbol <= 11 : symbol % 16 <= 10)) return false;
      steps_[next] = direct ? direct_step(length, symbol) : alternating_step(length, symbol);
      for (uint32_t at = code; length <= fast_bits && at < code + span; at += fast_span) {
        fast_[at / fast_span] = steps_[next];
      }
    }
    by_length_[length].end = code;
  }
  return true;
}

void HuffmanTable::join_codes() {
  for (uint64_t i = 0; i < many_.size(); ++i) {
    Step joined{.limit = block_values - 1};
    while (!joined.ends) {
      const Step next = step(i << (64 - many_bits) << joined.bits);
      const bool whole = next.bits != 0 && joined.bits + next.bits <= int{many_bits};
      if (!whole || joined.advance > next.limit) break;
      joined.limit = std::min(joined.limit, static_cast<uint8_t>(next.limit - joined.advance));
      joined.bits = static_cast<uint8_t>(joined.bits + next.bits);
      joined.advance = static_cast<uint8_t>(joined.advance + next.advance);
      joined.ends = next.ends;
    }
    many_[i] = joined;
  }
}

Step HuffmanTable::long_step(uint32_t sixteen_bits) const {
  for (unsigned length = fast_bits + 1; length <= longest; ++length) {
    const Length& codes = by_length_[length];
    if (sixteen_bits >= codes.begin && sixteen_bits < codes.end) {
      return steps_[codes.first + ((sixteen_bits - codes.begin) >> (longest - length))];
    }
  }
  return {};
}

// The bits between two markers. Beyond the last one come zeros, which take() refuses.
class EntropyBits {
 public:
  explicit EntropyBits(std::span<const uint8_t> bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

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
    if (count_ > 56) return;
    if (end_ - at_ >= 8) {
      uint64_t word = 0;
      std::memcpy(&word, at_, sizeof word);
      const uint64_t turned = ~word;
      const bool has_ff = ((turned - 0x0101010101010101u) & ~turned & 0x8080808080808080u) != 0;
      if (!has_ff) {
        if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
        const int whole = (64 - count_) / 8;
        const uint64_t kept = whole == 8 ? word : word >> (64 - 8 * whole) << (64 - 8 * whole);
        bits_ |= kept >> count_;
        count_ += 8 * whole;
        at_ += whole;
        return;
      }
    }
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
