#include "core/io/file_ending.h"

#include "core/io/lower_ascii.h"

namespace whisker {

std::string file_ending(const std::filesystem::path& path) {
  return lower_ascii(path.extension().string());
}

}  // namespace whisker
