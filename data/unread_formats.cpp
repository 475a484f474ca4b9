#include "data/unread_formats.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

namespace whisker {
namespace {

std::string extension_of(std::string_view name) {
  std::string extension(name.substr(std::min(name.find_last_of("./"), name.size())));
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

}  // namespace

bool has_unread_format(std::string_view name) {
  constexpr std::array<std::string_view, 8> extensions = {".gif",  ".webp", ".tif",  ".tiff",
                                                          ".heic", ".heif", ".avif", ".jxl"};
  return std::ranges::find(extensions, extension_of(name)) != extensions.end();
}

int64_t count_unread_formats(std::span<const SkippedFile> files) {
  return std::ranges::count_if(files,
                               [](const auto& file) { return has_unread_format(file.path); });
}

std::string unread_formats(std::span<const SkippedFile> files, bool others) {
  std::map<std::string, int64_t> counts;
  int64_t rest = 0;
  for (const SkippedFile& file : files) {
    has_unread_format(file.path) ? ++counts[extension_of(file.path)] : ++rest;
  }
  std::string text;
  for (const auto& [extension, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, extension);
  }
  if (!others || rest == 0) return text;
  return text +
         fmt::format("{}{} other file{}", text.empty() ? "" : " and ", rest, rest == 1 ? "" : "s");
}

}  // namespace whisker
