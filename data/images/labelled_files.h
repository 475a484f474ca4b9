// Labelled images from command-line arguments: files, folders of class folders, class folders, or a
// CSV. For evaluating a trained model, whose classes are known.
#pragma once

#include "data/images/image_folder.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct LabelOptions {
  std::vector<std::string> classes = {};  ///< of the model; every label must be one of them
  /// Labels come from file names (see data/images/label_pattern.h) instead of folder names.
  std::string label_pattern = {};
  /// Files and labels come from a CSV with the columns `path` and `label`.
  std::filesystem::path csv = {};
  /// Name of the command in errors.
  std::string name = "evaluate";
};

/// The images that `names` refer to, in that order, each once. `root` is empty; paths are as given
/// or begin with the folder given. A folder holds class folders, or is one itself when its own name
/// is a class and no folder in it is. A single file's label is the name of its folder. With a CSV,
/// `names` is the folder that its paths are relative to, or empty: the CSV's own. Missing files and
/// unreadable folders go to `unreadable`. Throws data for an unknown label, naming the files, and
/// for a file given with two labels; usage for contradictory options.
ImageFolder label_files(std::span<const std::string> names, const LabelOptions& options);

}  // namespace whisker
