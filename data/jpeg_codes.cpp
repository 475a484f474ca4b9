#include "data/jpeg_codes.h"

#include <algorithm>

namespace whisker::formats {
namespace {

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

}  // namespace

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

}  // namespace whisker::formats
