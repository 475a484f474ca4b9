// The well-formed byte sequences of RFC 3629, section 4, checked one sequence at a time.
#include "core/io/utf8.h"

#include "core/io/text.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace whisker {

size_t utf8_sequence_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                        : lead >= 0xe0 && lead <= 0xef ? 3
                        : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  const uint8_t lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;   // no overlong forms
  const uint8_t highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;  // no surrogates
  if (byte(1) < lowest || byte(1) > highest) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return 0;
  }
  return length;
}

char32_t code_point(std::string_view sequence) {
  const auto lead = static_cast<uint8_t>(sequence.front());
  if (sequence.size() == 1) return lead;
  char32_t c = lead & (0x7fu >> sequence.size());
  for (const char next : sequence.substr(1)) c = c << 6 | (static_cast<uint8_t>(next) & 0x3fu);
  return c;
}

bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0u) != 0x80u; }));
}

std::string without_middle(std::string_view text, size_t begin, size_t end) {
  const size_t count = text.size() > begin + end ? count_code_points(text) : 0;
  if (count <= begin + end) return std::string(text);
  const auto continues = [&](size_t at) {
    return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0u) == 0x80u;
  };
  size_t first = 0, last = text.size();
  for (size_t i = 0; i < begin; ++i) {
    do ++first;
    while (continues(first));
  }
  for (size_t i = 0; i < end; ++i) {
    do --last;
    while (continues(last));
  }
  return fmt::format("{} [… {} characters …] {}", text.substr(0, first),
                     grouped(static_cast<int64_t>(count - begin - end)), text.substr(last));
}

}  // namespace whisker
