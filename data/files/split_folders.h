// Folders of training, validation and test data, recognised by their names.
#pragma once

#include "data/files/file_walk.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

enum class Split : uint8_t { none, train, val, test };

/// The split that a folder's name says. Names are compared in lower case, without "seg", "set",
/// "images", digits and punctuation: train, training; val, valid, validation, dev, eval; test,
/// testing.
Split split_of_name(std::string_view name);

/// The splits in a folder, by path; empty: not there.
struct SplitFolders {
  std::filesystem::path train, val, test;
  std::vector<std::string> others = {};  ///< names beside them, visible, that hold no examples
};

/// Whether a folder holds examples below it, whatever their labels.
using HoldsExamples = std::function<bool(const std::filesystem::path&)>;

/// The splits that `root` holds instead of class folders; nothing when no folder in it has a
/// split's name, or `root` is no folder. Throws data with both readings where class folders lie
/// beside them, and for two folders of one split or splits without a training one; `what` names
/// `root`.
std::optional<SplitFolders> find_splits(const std::filesystem::path& root, std::string_view what,
                                        const HoldsExamples& holds_examples);

/// Throws data, naming `what`, when class folders `folders` of `root` have names of splits, unless
/// they are among `classes`.
void refuse_splits(const std::filesystem::path& root, std::string_view what,
                   const std::vector<std::string>& folders,
                   const std::vector<std::string>& classes = {});

/// The splits within class folders, as in cat/train/1.jpg.
class SplitsInClasses {
 public:
  void add(const std::string& path);
  /// Throws data with both readings when a class has examples in one and others elsewhere.
  void refuse(const std::filesystem::path& root, std::string_view what) const;

 private:
  std::map<std::string, std::set<std::string>> within_;  // by class; "": in no split
};

}  // namespace whisker
