#include "core/io/unicode.h"

#include "core/io/utf8.h"
#include "core/work_progress.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <utf8proc.h>

namespace whisker {
namespace {

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

CharacterClass character_class(char32_t c) {
  constexpr char32_t zero_width_space = 0x200b, next_line = 0x85, byte_order_mark = 0xfeff;
  if ((c >= '\t' && c <= '\r') || c == next_line || c == zero_width_space || c == byte_order_mark) {
    return CharacterClass::space;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterClass::space;
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::word;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
      return CharacterClass::extend;
    default:
      return CharacterClass::other;
  }
}

std::string to_nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  // utf8proc takes several times the memory of what it is given. Nothing composes over a line's
  // end.
  constexpr size_t piece_bytes = 1 << 20;
  std::string normal;
  normal.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const size_t line_end = rest.find('\n', std::min(piece_bytes, rest.size()));
    const std::string_view piece = rest.substr(0, std::min(line_end, rest.size() - 1) + 1);
    rest.remove_prefix(piece.size());
    utf8proc_uint8_t* result = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(piece.data()),
                     static_cast<utf8proc_ssize_t>(piece.size()), &result,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
    if (size < 0) return std::string(text);
    normal.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
    count_progress();
  }
  return normal;
}

std::string to_small_letters(std::string_view text) {
  std::string small;
  small.reserve(text.size());
  for (size_t i = 1; !text.empty(); ++i) {
    if (i % 65536 == 0) count_progress();
    const size_t length = utf8_sequence_length(text);
    if (length == 0) {
      small += text.front();
      text.remove_prefix(1);
      continue;
    }
    utf8proc_uint8_t bytes[4];
    const auto c = static_cast<utf8proc_int32_t>(code_point(text.substr(0, length)));
    const utf8proc_ssize_t size = utf8proc_encode_char(utf8proc_tolower(c), bytes);
    small.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    text.remove_prefix(length);
  }
  return small;
}

NameMatch find_name(std::span<const std::string> names, std::string_view name) {
  const auto same = std::ranges::find(names, name);
  if (same != names.end()) return {.index = static_cast<size_t>(same - names.begin())};
  NameMatch match;
  const std::string wanted = to_nfc(name);
  for (size_t i = 0; i < names.size(); ++i) {
    if (to_nfc(names[i]) != wanted) continue;
    match.several = match.index.has_value();
    if (match.several) break;
    match.index = i;
  }
  if (match.several) match.index.reset();
  match.normalised = match.index.has_value();
  return match;
}

}  // namespace whisker
