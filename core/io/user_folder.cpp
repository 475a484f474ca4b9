#include "core/io/user_folder.h"

#include "core/error.h"
#include "core/io/text.h"

#include <algorithm>
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

std::string unexpanded(std::string_view path) {
  const std::string first(path.substr(0, path.find('/')));
  std::string name = first == "~" ? "HOME" : "";
  if (first.size() > 1 && first[0] == '$') {
    const bool braces = first[1] == '{' && first.back() == '}';
    name = braces ? first.substr(2, first.size() - 3) : first.substr(1);
  }
  const auto in_names = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  if (name.empty() || !std::ranges::all_of(name, in_names)) return "";
  const char* value = std::getenv(name.c_str());
  const std::string meant =
      value ? printable(value + std::string(path.substr(first.size()))) : "the whole path";
  return fmt::format("No shell has expanded {}: write {}, or {} for a folder of that name.", first,
                     meant, printable("./" + std::string(path)));
}

}  // namespace whisker
