// Images and their labels from a CSV file with the columns `path` and `label`.
#pragma once

#include "data/images/image_folder.h"

#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

/// Files with the class name of each, before classes become numbers.
struct NamedImages {
  std::vector<ImageFile> files = {};
  int64_t links = 0;  ///< of the files: symbolic links
  std::vector<std::string> labels = {};
  std::vector<SkippedFile> skipped = {};
  std::vector<SkippedFile> unreadable = {};
  std::vector<std::string> notes = {};  ///< what was assumed
};

void add_file(NamedImages& named, WalkedFile file, std::string label);

/// The images that options.csv names, below `root`. A path is taken as it is written; else with
/// slashes for backslashes, or in another normal form of Unicode, which is noted. Throws data,
/// naming the line, for what is missing or given twice; n/./a.jpg is n/a.jpg.
NamedImages read_label_csv(const std::filesystem::path& root, const ImageFolderOptions& options);

}  // namespace whisker
