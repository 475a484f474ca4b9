// libwebp allocates memory for all prefix codes of a lossless stream at once and has no limit: a
// file of 160 KB could need 1.3 GB. They are counted first. The entropy image's position is known
// only after reading what precedes it: the transforms and their small images. Their pixels are
// skipped, not kept (RFC 9649, sections 3.4 to 3.7).
#include "data/codec/decode_formats.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace whisker::formats {
namespace {

struct Damaged {};

class Bits {
 public:
  explicit Bits(Bytes bytes) : bytes_(bytes) {}
  /// The next `count` bits, the first one lowest.
  uint32_t read(int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      if (at_ / 8 >= bytes_.size()) throw Damaged();
      value |= static_cast<uint32_t>(bytes_[at_ / 8] >> (at_ % 8) & 1) << i;
    }
    return value;
  }

 private:
  Bytes bytes_;
  size_t at_ = 0;
};

// A canonical prefix code; one of a single symbol takes no bits.
class PrefixCode {
 public:
  explicit PrefixCode(const std::vector<uint8_t>& lengths) {
    for (const uint8_t length : lengths) ++counts_[length];
    counts_[0] = 0;
    for (uint8_t length = 1; length < counts_.size(); ++length) {
      for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
        if (lengths[symbol] == length) symbols_.push_back(static_cast<uint32_t>(symbol));
      }
    }
    if (symbols_.empty()) throw Damaged();
  }
  uint32_t read(Bits& bits) const {
    if (symbols_.size() == 1) return symbols_.front();
    uint32_t code = 0, first = 0, index = 0;
    for (size_t length = 1; length < counts_.size(); ++length) {
      code |= bits.read(1);
      if (code - first < counts_[length]) return symbols_[index + (code - first)];
      index += counts_[length];
      first = (first + counts_[length]) << 1;
      code <<= 1;
    }
    throw Damaged();
  }

 private:
  std::array<uint32_t, 16> counts_{};  // of codes, by length
  std::vector<uint32_t> symbols_;      // by length, then number
};

PrefixCode read_code(Bits& bits, size_t alphabet) {
  std::vector<uint8_t> lengths(std::max<size_t>(alphabet, 256));
  if (bits.read(1) != 0) {
    const bool two = bits.read(1) != 0;
    lengths[bits.read(bits.read(1) != 0 ? 8 : 1)] = 1;
    if (two) lengths[bits.read(8)] = 1;
    lengths.resize(alphabet);
    return PrefixCode(lengths);
  }
  constexpr std::array<uint8_t, 19> order = {17, 18, 0, 1,  2,  3,  4,  5,  16, 6,
                                             7,  8,  9, 10, 11, 12, 13, 14, 15};
  std::vector<uint8_t> length_lengths(order.size());
  const uint32_t given = bits.read(4) + 4;
  for (uint32_t i = 0; i < given; ++i) {
    length_lengths[order[i]] = static_cast<uint8_t>(bits.read(3));
  }
  const PrefixCode length_code(length_lengths);
  lengths.assign(alphabet, 0);
  size_t most = alphabet;  // codes of lengths
  if (bits.read(1) != 0) most = 2 + bits.read(2 + 2 * static_cast<int>(bits.read(3)));
  if (most > alphabet) throw Damaged();
  uint8_t previous = 8;
  for (size_t symbol = 0; symbol < alphabet && most > 0; --most) {
    const auto length = static_cast<uint8_t>(length_code.read(bits));
    if (length < 16) {
      lengths[symbol++] = length;
      if (length != 0) previous = length;
      continue;
    }
    const size_t repeat = length == 16   ? 3 + bits.read(2)
                          : length == 17 ? 3 + bits.read(3)
                                         : 11 + bits.read(7);
    if (repeat > alphabet - symbol) throw Damaged();
    std::fill_n(lengths.begin() + static_cast<ptrdiff_t>(symbol), repeat,
                length == 16 ? previous : uint8_t{0});
    symbol += repeat;
  }
  return PrefixCode(lengths);
}

// The number that a length or distance symbol stands for, less one.
int64_t read_number(Bits& bits, uint32_t symbol) {
  if (symbol < 4) return symbol;
  const int extra = static_cast<int>(symbol - 2) / 2;
  return (int64_t{2 + symbol % 2} << extra) + bits.read(extra);
}

size_t read_cache_size(Bits& bits) {
  return bits.read(1) != 0 ? size_t{1} << bits.read(4) : 0;
}

// An image that has neither transforms nor an entropy image.
void skip_image(Bits& bits, int64_t pixels) {
  constexpr uint32_t literals = 256, lengths = 24, distances = 40;
  const size_t greens = literals + lengths + read_cache_size(bits);
  const PrefixCode green = read_code(bits, greens);
  const PrefixCode red = read_code(bits, literals), blue = read_code(bits, literals),
                   alpha = read_code(bits, literals), distance = read_code(bits, distances);
  while (pixels > 0) {
    const uint32_t symbol = green.read(bits);
    if (symbol < literals) {
      red.read(bits);
      blue.read(bits);
      alpha.read(bits);
    } else if (symbol < literals + lengths) {
      pixels -= read_number(bits, symbol - literals);
      read_number(bits, distance.read(bits));
    }
    --pixels;
  }
}

int64_t blocks(int64_t side, uint32_t bits) {
  return (side + (int64_t{1} << bits) - 1) >> bits;
}

int64_t count_groups(Bits bits, int64_t width, int64_t height) {
  enum : uint32_t { predictor, color, subtract_green, palette };
  std::array<bool, 4> seen{};
  while (bits.read(1) != 0) {
    const uint32_t type = bits.read(2);
    if (std::exchange(seen[type], true)) throw Damaged();
    if (type == predictor || type == color) {
      const uint32_t block_bits = bits.read(3) + 2;
      skip_image(bits, blocks(width, block_bits) * blocks(height, block_bits));
    } else if (type == palette) {
      const uint32_t colors = bits.read(8) + 1;
      width = blocks(width, colors > 16 ? 0 : colors > 4 ? 1 : colors > 2 ? 2 : 3);
      skip_image(bits, colors);
    }
  }
  read_cache_size(bits);
  if (bits.read(1) == 0) return 1;
  const uint32_t block_bits = bits.read(3) + 2;
  return blocks(width, block_bits) * blocks(height, block_bits);
}

}  // namespace

int64_t webp_code_groups(Bytes stream, int64_t width, int64_t height) {
  try {
    return count_groups(Bits(stream), width, height);
  } catch (const Damaged&) {
    return 1;
  }
}

}  // namespace whisker::formats
