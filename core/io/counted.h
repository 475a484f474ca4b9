// A number with what it counts, for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace whisker {

/// "1 row is", "2 rows are".
inline std::string counted(int64_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

/// "1 row", "2 rows", "2 classes", "2 batches".
inline std::string counted(int64_t count, std::string_view one) {
  const bool hisses = one.ends_with('s') || one.ends_with("tch");
  return counted(count, one, fmt::format("{}{}", one, hisses ? "es" : "s"));
}

/// "none of the 2 images", "not even the one image".
inline std::string none_of(int64_t count, std::string_view one) {
  return count == 1 ? fmt::format("not even the one {}", one)
                    : fmt::format("none of the {}", counted(count, one));
}

}  // namespace whisker
