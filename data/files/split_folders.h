// Folders of training, validation and test data, recognised by their names.
#pragma once

#include "data/files/file_walk.h"
#include "data/files/split_names.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// The splits in a folder, by path; empty: not there.
struct SplitFolders {
  std::filesystem::path train, val, test;
  std::vector<std::string> others = {};  ///< names beside them, visible, that hold no examples
};

/// Whether a folder holds examples below it, whatever their labels.
using HoldsExamples = std::function<bool(const std::filesystem::path&)>;

struct SplitSearch {
  std::string_view what = "data";  ///< name of the folder in errors
  HoldsExamples holds_examples = {};
  bool texts = false;            ///< examples are texts, for which there is no data.label_pattern
  bool labels_in_names = false;  ///< of files, not of their folders
};

/// The splits that `root` holds instead of class folders; nothing when no folder in it has a
/// split's name, or `root` is no folder: see Note [Splits or classes]. Throws data with both
/// readings where class folders lie beside them, for two folders of one split or splits without a
/// training one, and where a folder around the splits is to be named.
std::optional<SplitFolders> find_splits(const std::filesystem::path& root,
                                        const SplitSearch& search);

}  // namespace whisker
