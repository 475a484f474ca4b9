// One pass over the text. TokenRules::ascii stays as it was: its letters are bytes, its capitals
// ranges of three alphabets.
#include "data/sequences/tokens.h"

#include "core/io/unicode.h"
#include "core/io/utf8.h"
#include "core/work_progress.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

bool is_ascii_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_letter_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         static_cast<uint8_t>(c) >= 0x80;
}

// The class and the bytes of the character that `text`, which is not empty, begins with.
struct Character {
  CharacterClass kind;
  size_t length;
};
Character first_character(std::string_view text, TokenRules rules) {
  const size_t length = utf8_sequence_length(text);
  if (rules == TokenRules::unicode && length > 0) {
    return {character_class(code_point(text.substr(0, length))), length};
  }
  const char c = text.front();
  return {is_ascii_space(c)   ? CharacterClass::space
          : is_letter_byte(c) ? CharacterClass::word
                              : CharacterClass::other,
          1};
}

// Bytes of the token that `text`, which begins with no space, begins with.
size_t word_length(std::string_view text, TokenRules rules) {
  const Character first = first_character(text, rules);
  const bool word = first.kind == CharacterClass::word;
  size_t end = first.length;
  while (end < text.size()) {
    const Character next = first_character(text.substr(end), rules);
    const bool letter = word && next.kind == CharacterClass::word;
    const bool inner = word && text[end] == '\'' && end + 1 < text.size() &&
                       first_character(text.substr(end + 1), rules).kind == CharacterClass::word;
    if (!letter && !inner && next.kind != CharacterClass::extend) break;
    end += next.length;
  }
  return end;
}

// With ' for the apostrophe of typographers between two letters.
std::string plain_apostrophes(std::string given) {
  constexpr std::string_view quote = "\u2019", wide = "\uff07";
  std::string_view text = given;
  if (text.find(quote) == text.npos && text.find(wide) == text.npos) return given;
  std::string plain;
  plain.reserve(text.size());
  bool after_word = false;
  for (size_t i = 1; !text.empty(); ++i) {
    if (i % 65536 == 0) count_progress();
    const Character one = first_character(text, TokenRules::unicode);
    const std::string_view bytes = text.substr(0, one.length);
    text.remove_prefix(one.length);
    const bool apostrophe = bytes == quote || bytes == wide;
    const bool before_word =
        !text.empty() && first_character(text, TokenRules::unicode).kind == CharacterClass::word;
    if (apostrophe && after_word && before_word) {
      plain += '\'';
    } else {
      plain += bytes;
    }
    if (one.kind != CharacterClass::extend) after_word = one.kind == CharacterClass::word;
  }
  return plain;
}

// The small letter of one code point; most have none and stay.
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

// Small letters of the Latin, Greek and Cyrillic alphabets, U+0041 to U+042F: TokenRules::ascii.
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

}  // namespace

std::string prepare_text(std::string_view text, bool lowercase, TokenRules rules) {
  if (rules == TokenRules::ascii) return lowercase ? to_lowercase(text) : std::string(text);
  std::string normal = to_nfc(text);
  if (lowercase) normal = to_nfc(to_small_letters(normal));
  return plain_apostrophes(std::move(normal));
}

std::vector<std::string_view> split_tokens(std::string_view text, TokenLevel level,
                                           TokenRules rules) {
  std::vector<std::string_view> tokens;
  while (!text.empty()) {
    size_t length = std::max<size_t>(1, utf8_sequence_length(text));
    if (level == TokenLevel::words) {
      const Character first = first_character(text, rules);
      if (first.kind == CharacterClass::space) {
        text.remove_prefix(first.length);
        continue;
      }
      length = word_length(text, rules);
    }
    tokens.push_back(text.substr(0, length));
    if (tokens.size() % 65536 == 0) count_progress();
    text.remove_prefix(length);
  }
  return tokens;
}

}  // namespace whisker
