// Folders of training, validation and test data, recognised by their names.
#pragma once

#include "data/files/file_walk.h"
#include "data/files/split_names.h"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
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
/// readings where class folders lie beside them, and for two folders of one split or splits without
/// a training one.
std::optional<SplitFolders> find_splits(const std::filesystem::path& root,
                                        const SplitSearch& search);

/// Those of `names`, of folders or files in `root`, that are not names of splits but may be parts
/// of one data set instead of classes: see Note [Splits or classes].
std::vector<std::string> likely_parts(const std::filesystem::path& root,
                                      const std::vector<std::string>& names);

/// Throws data, naming `what`, when class folders of `root` have names of splits, or may be parts
/// of one data set. `folders`: their names, but of known classes. Returns what was assumed of a
/// class with the name of a split, or "".
std::string refuse_splits(const std::filesystem::path& root, std::string_view what,
                          const std::vector<std::string>& folders, bool texts = false);

/// The splits within class folders, as in cat/train/1.jpg.
class SplitsInClasses {
 public:
  void add(const std::string& path);
  /// Throws data with both readings when a class has examples in one and others elsewhere, or two
  /// classes have theirs in different ones.
  void refuse(const std::filesystem::path& root, std::string_view what, bool texts = false) const;

 private:
  std::map<std::string, std::set<std::string>> within_;  // by class; "": in no split
};

}  // namespace whisker
