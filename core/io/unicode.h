// Unicode's character classes, small letters and normal form, from utf8proc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// What a code point is in a text that is split into words.
enum class CharacterClass {
  space,   ///< categories Z and Cc's spaces, zero-width space, byte order mark
  word,    ///< letters and numbers: categories L and N
  extend,  ///< as in UAX #29: belongs to what is before it: marks (M), joiners, soft hyphens
  other,   ///< punctuation, symbols and all else
};

CharacterClass character_class(char32_t c);

/// `text`, which is valid UTF-8, in normal form C (Unicode annex 15). Anything else comes back as
/// it is.
std::string to_nfc(std::string_view text);

/// `text`, which is valid UTF-8, with every capital as its small letter where that is one code
/// point.
std::string to_small_letters(std::string_view text);

/// The position of `name` in `names`: that of the same bytes; else, where exactly one name has the
/// same normal form C, that one's.
struct NameMatch {
  std::optional<size_t> index = {};
  bool normalised = false;  ///< the bytes differ
  bool several = false;     ///< more than one has the normal form, none the bytes
};
NameMatch find_name(std::span<const std::string> names, std::string_view name);

}  // namespace whisker
