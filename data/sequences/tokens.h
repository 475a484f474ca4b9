// Text to tokens: characters (code points) or words. Text is UTF-8 throughout; a token is a
// substring.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Which characters are letters. Weights keep the rules that they were trained with.
enum class TokenRules : uint8_t {
  ascii,    ///< ASCII letters and digits, and every byte beyond ASCII
  unicode,  ///< Unicode's categories, in normal form C
};

enum class TokenLevel : uint8_t {
  characters,  ///< every code point, spaces included
  words,       ///< runs of letters and digits; each punctuation mark by itself; no whitespace
};

/// `text`, which is valid UTF-8, as split_tokens() reads it: with `lowercase` in lower case, and
/// with TokenRules::unicode in normal form C.
std::string prepare_text(std::string_view text, bool lowercase, TokenRules rules);

/// The tokens of `text`, which prepare_text() made, as views into it. Within a word an apostrophe
/// stays ("don't"); prepare_text() makes ASCII's of the typographic one there. A token that is no
/// word holds the marks and joiners behind it, as an emoji's.
std::vector<std::string_view> split_tokens(std::string_view text, TokenLevel level,
                                           TokenRules rules = TokenRules::unicode);

}  // namespace whisker
