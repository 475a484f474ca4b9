// ASCII's letters in lower case, whatever the locale; other bytes stay as they are.
#pragma once

#include <string>
#include <string_view>

namespace whisker {

constexpr char lower_ascii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = lower_ascii(c);
  return lower;
}

}  // namespace whisker
