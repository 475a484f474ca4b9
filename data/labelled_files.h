// Labelled pictures out of what a person names on a command line: files, folders of class folders,
// class folders, or a CSV. For measuring a trained model, whose classes are known.
#pragma once

#include "data/image_folder.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct LabelOptions {
  std::vector<std::string> classes = {};  ///< of the model; every label must be one of them
  /// Takes labels from file names (see data/label_pattern.h) instead of folder names.
  std::string label_pattern = {};
  /// Takes files and labels from a CSV with the columns `path` and `label`.
  std::filesystem::path csv = {};
  /// What errors call the command.
  std::string name = "evaluate";
};

/// The pictures that `names` stand for, in the order named, each once; `root` is empty and paths
/// are as given, or begin with the folder given. A folder holds class folders, or is one itself:
/// its own name is a class and no folder in it is. The label of a single file is the name of its
/// folder. With a CSV, `names` is the one folder that its paths are relative to, or empty: the
/// CSV's own. Files that are not there and folders that cannot be read go into `unreadable`. Throws
/// data for a label that is no class, naming the files, and usage for options that contradict each
/// other.
ImageFolder label_files(std::span<const std::string> names, const LabelOptions& options);

}  // namespace whisker
