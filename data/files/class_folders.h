// Folders that are read as classes, and may be parts of a data set instead: see Note [Splits or
// classes].
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Names of folders or files that may be parts of one data set instead of classes.
struct LikelyParts {
  std::vector<std::string> names = {};  ///< folds; or two that differ in a split's word alone
  bool labels = false;  ///< their names hold classes, too: cat_train, dog_train, cat_test
};
LikelyParts likely_parts(const std::vector<std::string>& names);

/// Whether the only one of `named`, which have the names of splits, is a class beside `others`:
/// unlike a test set's, training data without class folders would be of no use.
bool is_class(const std::filesystem::path& root, const std::vector<std::string>& named,
              size_t others, bool texts);

/// Throws data, naming `what`, when class folders of `root` have names of splits, or may be parts
/// of one data set. `folders`: their names, but of known classes. Returns what was assumed of
/// them, or "".
std::string refuse_splits(const std::filesystem::path& root, std::string_view what,
                          const std::vector<std::string>& folders, bool texts = false);

/// The splits within class folders, as in cat/train/1.jpg.
class SplitsInClasses {
 public:
  void add(const std::string& path);
  /// Throws data with the readings when a class has examples in one and others elsewhere, or two
  /// classes have theirs in different ones.
  void refuse(const std::filesystem::path& root, std::string_view what, bool texts = false) const;

 private:
  // By class, by the name of the split, "" for none: the first path.
  std::map<std::string, std::map<std::string, std::string>> within_;
};

}  // namespace whisker
