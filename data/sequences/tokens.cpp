// One pass over the bytes; the alphabets' capitals by their ranges in Unicode.
#include "data/sequences/tokens.h"

#include "core/io/utf8.h"
#include "core/work_progress.h"

#include <algorithm>

namespace whisker {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         static_cast<uint8_t>(c) >= 0x80;
}

// Bytes of the token that `text`, which begins with no space, begins with.
size_t word_length(std::string_view text) {
  if (!is_letter(text.front())) return 1;
  size_t end = 1;
  while (end < text.size()) {
    const bool inner = text[end] == '\'' && end + 1 < text.size() && is_letter(text[end + 1]);
    if (!is_letter(text[end]) && !inner) break;
    ++end;
  }
  return end;
}

// Of one code point; most have none and stay.
char32_t small_letter(char32_t c) {
  const auto within = [c](char32_t low, char32_t high) { return c >= low && c <= high; };
  if (within('A', 'Z') || (within(0xc0, 0xde) && c != 0xd7)) return c + 32;
  // Latin Extended-A: capital and small letter side by side, the capital even or odd.
  if (within(0x100, 0x12f) || within(0x132, 0x137) || within(0x14a, 0x177)) return c | 1;
  if (within(0x139, 0x148) || within(0x179, 0x17e)) return c + (c & 1);
  if (c == 0x178) return 0xff;
  if (within(0x391, 0x3ab) && c != 0x3a2) return c + 32;
  if (c == 0x386) return 0x3ac;
  if (within(0x388, 0x38a)) return c + 37;
  if (c == 0x38c) return 0x3cc;
  if (within(0x38e, 0x38f)) return c + 63;
  if (within(0x400, 0x40f)) return c + 80;
  if (within(0x410, 0x42f)) return c + 32;
  return c;
}

}  // namespace

std::vector<std::string_view> split_tokens(std::string_view text, TokenLevel level) {
  std::vector<std::string_view> tokens;
  while (!text.empty()) {
    size_t length = 1;
    if (level == TokenLevel::characters) {
      length = std::max<size_t>(1, utf8_sequence_length(text));
    } else if (is_space(text.front())) {
      text.remove_prefix(1);
      continue;
    } else {
      length = word_length(text);
    }
    tokens.push_back(text.substr(0, length));
    if (tokens.size() % 65536 == 0) count_progress();
    text.remove_prefix(length);
  }
  return tokens;
}

std::string to_lowercase(std::string_view text) {
  std::string small;
  small.reserve(text.size());
  while (!text.empty()) {
    const size_t length = std::max<size_t>(1, utf8_sequence_length(text));
    const auto byte = [&](size_t i) {
      return static_cast<char32_t>(static_cast<uint8_t>(text[i]));
    };
    if (length == 1) {
      small += static_cast<char>(small_letter(byte(0)));
    } else if (length == 2) {
      // Every capital beyond ASCII that is known here is two bytes, and so is its small letter.
      const char32_t c = small_letter((byte(0) & 0x1f) << 6 | (byte(1) & 0x3f));
      small += static_cast<char>(0xc0 | c >> 6);
      small += static_cast<char>(0x80 | (c & 0x3f));
    } else {
      small += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return small;
}

}  // namespace whisker
