// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace whisker {

/// Byte offset of the first byte that does not start or continue a valid UTF-8 sequence, or npos.
size_t find_invalid_utf8(std::string_view text);

/// Length in bytes of the valid sequence at the start of `text`; 0 when there is none.
size_t utf8_sequence_length(std::string_view text);

/// The code point of a sequence that utf8_sequence_length accepted.
char32_t code_point(std::string_view sequence);

/// Whether a terminal or viewer obeys the code point instead of showing it: C0 and C1 controls,
/// DEL, bidirectional marks (Unicode 15, UAX 9, section 2), line and paragraph separators.
bool is_control(char32_t c);

/// Number of code points in valid UTF-8 (the column an editor shows, less one).
size_t count_code_points(std::string_view text);

/// Valid UTF-8 of more than `begin` + `end` code points without those between:
/// "abc [… 3,000 characters …] xyz".
std::string without_middle(std::string_view text, size_t begin, size_t end);

}  // namespace whisker
