// Labelled picture files on disk: which files, which classes. Labels come from folder names
// (root/cat/1.jpg), from file names by a pattern (cat.1.jpg), or from a CSV file. Only names and
// sizes are read here; a picture is opened when it is wanted.
#pragma once

#include "data/file_walk.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

struct PictureFile {
  std::string path;  ///< relative to ImageFolder::root, bytes as on disk
  int64_t label = 0;
  uint64_t bytes = 0;
};

struct ImageFolder {
  std::filesystem::path root;
  std::vector<std::string> classes;          ///< sorted bytewise; a label is a position here
  std::vector<PictureFile> files;            ///< sorted bytewise by path
  std::vector<SkippedFile> skipped;          ///< what looked like no picture, or had no label
  std::vector<SkippedFile> unreadable = {};  ///< see ImageFolderOptions::on_unreadable

  int64_t size() const { return static_cast<int64_t>(files.size()); }
  std::filesystem::path file(int64_t index) const {
    return root / files[static_cast<size_t>(index)].path;
  }
  std::vector<int64_t> labels() const;
  /// Files per class.
  std::vector<int64_t> counts() const;
};

struct ImageFolderOptions {
  /// Takes labels from file names (see data/label_pattern.h); empty: from folder names.
  std::string label_pattern = {};
  /// Takes files and labels from a CSV with the columns `path` (relative to the root) and `label`.
  std::filesystem::path csv = {};
  /// The class table to use, as when evaluating a trained model. A class without files is then no
  /// error, one that is not in the table is. Empty: the classes found, two at least.
  std::vector<std::string> classes = {};
  /// What errors call the folder.
  std::string name = "data";
  /// Whether folders that cannot be listed, and files of the CSV that are not there, are an error
  /// or go into ImageFolder::unreadable.
  OnUnreadable on_unreadable = OnUnreadable::fail;
};

/// Lists the pictures under `root`. Hidden files and folders, and files whose name and first bytes
/// are no JPEG's, PNG's or BMP's, are left out. Throws data, saying what was found and what to do,
/// for a root that is missing, a file, empty or without class folders, for fewer than two classes,
/// and for a class folder without pictures; usage for wrong options.
ImageFolder open_image_folder(const std::filesystem::path& root,
                              const ImageFolderOptions& options = {});

/// Throws data listing the classes that only one of them has.
void check_same_classes(const ImageFolder& train, const ImageFolder& val);

/// A hash of every file's relative path, size and class name: changes when the data do.
std::string fingerprint(const ImageFolder& folder);

struct SplitFolder {
  ImageFolder train;
  ImageFolder val;
};

/// Moves `fraction` of each class, rounded, at least one file and never all, to `val`, chosen by
/// `seed`. Throws usage unless 0 < fraction < 1, data for a class of fewer than two files.
SplitFolder split_stratified(const ImageFolder& folder, double fraction, uint64_t seed);

}  // namespace whisker
