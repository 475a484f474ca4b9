#include "data/files/folder_levels.h"

#include "core/io/file_ending.h"
#include "data/files/file_walk.h"
#include "data/files/split_names.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace whisker {

std::vector<std::string> folders_alone(const std::filesystem::path& folder, bool texts) {
  std::vector<std::string> folders;
  std::error_code error, none;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with('.') || is_system_folder(name)) continue;
    if (entry->is_directory(none)) {
      folders.push_back(std::move(name));
    } else if (texts ? file_ending(name) == ".txt" : has_image_name(name)) {
      return {};
    }
  }
  std::ranges::sort(folders);
  return folders;
}

std::string levels_below(std::filesystem::path folder, bool texts) {
  std::string levels = "/*";
  for (int level = 0; level < most_folder_levels; ++level) {
    const std::vector<std::string> folders = folders_alone(folder, texts);
    if (folders.empty()) break;
    levels += "/*";
    folder /= folders.front();
  }
  return levels;
}

std::string as_classes(const std::filesystem::path& folder, bool texts,
                       const std::string& above) {
  if (texts) return "rename them";
  return fmt::format("set data.label_pattern (--label-pattern) to '{{label}}{}{}'", above,
                     levels_below(folder, texts));
}

CommonFolders common_folders(const std::filesystem::path& root,
                             const std::vector<std::string>& folders, bool texts) {
  CommonFolders common;
  std::string between;
  for (int level = 0; level < most_folder_levels && folders.size() > 1; ++level) {
    std::map<std::string, size_t> counts;
    for (const std::string& folder : folders) {
      const std::vector<std::string> inside = folders_alone(root / folder / between, texts);
      if (inside.empty()) return {};
      for (const std::string& name : inside) ++counts[name];
    }
    std::erase_if(counts, [&](const auto& one) {
      return one.second < folders.size() || split_of_name(one.first) != Split::none;
    });
    if (counts.size() != 1) {
      for (const auto& [name, count] : counts) {
        const bool number = name.find_first_not_of("0123456789") == std::string::npos;
        (number ? common.numbers : common.names).push_back(name);
      }
      return common;
    }
    between += counts.begin()->first + "/";  // amazon/images, webcam/images
    common.way += "/*";
  }
  return {};
}

}  // namespace whisker
