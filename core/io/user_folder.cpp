#include "core/io/user_folder.h"

#include <cstdlib>

namespace whisker {
namespace {

std::filesystem::path absolute_path_in(const char* variable) {
  const char* value = std::getenv(variable);
  std::filesystem::path path = value ? value : "";
  return path.is_absolute() ? path : std::filesystem::path();
}

}  // namespace

std::filesystem::path user_folder(const char* variable, const char* otherwise) {
  std::filesystem::path folder = absolute_path_in(variable);
  if (folder.empty() && !absolute_path_in("HOME").empty()) {
    folder = absolute_path_in("HOME") / otherwise;
  }
  return folder;
}

}  // namespace whisker
