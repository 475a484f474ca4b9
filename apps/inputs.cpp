#include "apps/inputs.h"

#include "data/file_walk.h"

#include <filesystem>
#include <iostream>
#include <system_error>

namespace whisker {

std::vector<std::string> expand_inputs(const std::vector<std::string>& words) {
  std::vector<std::string> paths;
  for (const std::string& word : words) {
    if (word == "-") {
      for (std::string line; std::getline(std::cin, line);) {
        if (!line.empty()) paths.push_back(line);
      }
    } else if (std::error_code error; std::filesystem::is_directory(word, error)) {
      const std::filesystem::path folder(word);
      for (const WalkedFile& file : walk_files(folder, word).files) {
        if (is_picture(folder / file.path)) paths.push_back((folder / file.path).string());
      }
    } else {
      paths.push_back(word);
    }
  }
  return paths;
}

}  // namespace whisker
