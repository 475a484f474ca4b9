#include "core/io/file_ending.h"

#include <algorithm>
#include <cctype>

namespace whisker {

std::string file_ending(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

}  // namespace whisker
