// The Huffman codes of a baseline JPEG's entropy-coded data (ITU T.81, annexes C and F.2.2), as far
// as finding where each ends: no value is ever computed.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace whisker::formats {

inline constexpr int block_values = 64;

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
  /// when they make no code, or hold a symbol that baseline pictures of 8 bits have not. `direct`:
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

}  // namespace whisker::formats
