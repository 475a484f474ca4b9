// Text to tokens: characters (code points) or words. Text is UTF-8 throughout; a token is a
// substring.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

enum class TokenLevel : uint8_t {
  characters,  ///< every code point, spaces included
  words,       ///< runs of letters and digits; each punctuation mark by itself; no whitespace
};

/// The tokens of `text`, which is valid UTF-8, as views into it. Within a word an apostrophe stays
/// ("don't"); bytes beyond ASCII count as letters.
std::vector<std::string_view> split_tokens(std::string_view text, TokenLevel level);

/// `text` with the capitals of the Latin, Greek and Cyrillic alphabets in lower case (U+0041 to
/// U+042F).
std::string to_lowercase(std::string_view text);

}  // namespace whisker
