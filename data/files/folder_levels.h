// Folders within class folders, by their names alone: what tells classes from parts of a data set,
// and what a message advises.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

inline constexpr int most_folder_levels = 8;  ///< that are looked at: links may lead in circles

/// The visible subfolders of a folder, sorted; none where it holds examples of its own (texts, else
/// images), of which the first ends the search.
std::vector<std::string> folders_alone(const std::filesystem::path& folder, bool texts);

/// "/*" for each level of folders below `folder`, and for their examples.
std::string levels_below(std::filesystem::path folder, bool texts);

/// How the folders beside `folder` are read as classes: "set data.label_pattern ...". `above`: "/*"
/// for each level from theirs down to `folder`, where that lies deeper.
std::string as_classes(const std::filesystem::path& folder, bool texts,
                       const std::string& above = "");

/// The names of folders that all of some folders hold, but those of splits.
struct CommonFolders {
  std::vector<std::string> names = {};
  std::vector<std::string> numbers = {};  ///< names of digits alone
  std::string way = {};  ///< "/*" for each folder that stands alone on the way to them
};
/// None for fewer than two folders, or where one holds examples of its own.
CommonFolders common_folders(const std::filesystem::path& root,
                             const std::vector<std::string>& folders, bool texts);

}  // namespace whisker
