#include "apps/terminal/program_files.h"

#include <system_error>

namespace whisker {
namespace fs = std::filesystem;

fs::path beside_program(std::initializer_list<const char*> names) {
  std::error_code error;
  fs::path above = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int level = 0; level < 3 && above.has_relative_path(); ++level) {
    above = above.parent_path();
    for (const char* name : names) {
      if (fs::exists(above / name, error)) return above / name;
    }
  }
  return {};
}

fs::path from_here(const fs::path& path) {
  std::error_code error;
  const fs::path below = path.lexically_relative(fs::current_path(error));
  return !below.empty() && *below.begin() != ".." ? below : path;
}

}  // namespace whisker
