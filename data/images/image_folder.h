// Labelled image files on disk: which files, which classes. Labels come from folder names
// (root/cat/1.jpg), from file names by a pattern (cat.1.jpg), or from a CSV file. Only names and
// sizes are read here; images are opened when needed.
#pragma once

#include "data/class_names.h"
#include "data/files/file_walk.h"
#include "data/sequences/validation_split.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct ImageFile {
  std::string path;  ///< relative to ImageFolder::root, bytes as on disk
  int64_t label = 0;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;           ///< mtime or ctime, the later; nanoseconds since 1970
  int64_t written_ns = 0;            ///< mtime
  bool deep = false, alpha = false;  ///< see WalkedFile
  uint64_t content = 0;              ///< content_hash(); 0: not read
};

struct ImageFolder {
  std::filesystem::path root;
  std::vector<std::string> classes;          ///< sorted bytewise; a label is a position here
  std::vector<ImageFile> files;              ///< sorted bytewise by path
  std::vector<SkippedFile> skipped;          ///< files that are no images, or have no label
  std::vector<SkippedFile> unreadable = {};  ///< see ImageFolderOptions::on_unreadable
  int64_t links = 0;                         ///< of the files: symbolic links
  std::vector<std::string> notes = {};       ///< what was assumed in reading names

  int64_t size() const { return static_cast<int64_t>(files.size()); }
  std::filesystem::path file(int64_t index) const {
    return root / files[static_cast<size_t>(index)].path;
  }
  std::vector<int64_t> labels() const;
  /// Files per class.
  std::vector<int64_t> counts() const;
  /// See use_of_files(); as listed, before a split.
  std::string use() const {
    return use_of_files(size(), links, skipped, std::ranges::count(files, true, &ImageFile::alpha));
  }
};

struct ImageFolderOptions {
  /// Labels come from file names (see data/images/label_pattern.h); empty: from folder names.
  std::string label_pattern = {};
  /// A CSV of files and labels with the columns `path` (relative to the root) and `label`.
  std::filesystem::path csv = {};
  /// The classes to use, for evaluating a trained model: a class without files is allowed, an
  /// unknown class is an error. Empty: the classes found, at least two.
  std::vector<std::string> classes = {};
  /// After the error about classes that are not among `classes`: a remedy.
  std::string other_classes = {};
  /// A remedy in place of data.label_pattern, for a folder without class folders.
  std::string no_folders = {};
  /// Name of the folder in errors.
  std::string name = "data";
  /// Whether folders that cannot be listed, and files of the CSV that are not there, are an error
  /// or go into ImageFolder::unreadable.
  OnUnreadable on_unreadable = OnUnreadable::fail;
  /// Whether files below the root that the CSV does not list are counted.
  bool counts_unlisted = true;
  /// Receives errors about classes, and the rest of the folder is listed; null: they are thrown.
  std::vector<std::string>* problems = nullptr;
  int rules = newest_data_rules;  ///< by which files are listed: Note [Data rules]
};

/// Lists the images under `root`; all other files go to `skipped`. Throws data with found and
/// remedy when `root` is missing, a file, empty or without class folders, has fewer than two
/// classes, an empty class or folders of splits; usage for wrong options.
ImageFolder open_image_folder(const std::filesystem::path& root,
                              const ImageFolderOptions& options = {});

/// Whether there is any image below a folder.
bool holds_images(const std::filesystem::path& folder);

/// Gives the classes of `val` that match one of `train` after Unicode's normal form C alone its
/// name, and notes it in `val`.
void adopt_class_names(const ImageFolder& train, ImageFolder& val);

/// Throws data listing the classes that only one of the two has.
void check_same_classes(const ImageFolder& train, const ImageFolder& val);

/// A hash of every file's relative path, size and class name. Contents: see
/// data/images/file_stamps.h.
std::string fingerprint(const ImageFolder& folder);

struct SplitFolder {
  ImageFolder train;
  ImageFolder val;
  int64_t copies = 0;                  ///< files that are identical to another one
  Contradictions contradictions = {};  ///< by number in the whole folder

  /// "12 images identical to another; identical images stay in the same split"; "" without copies.
  std::string note() const;
};

/// Moves `fraction` of each class, rounded, at least one file and never all, to `val`, chosen by
/// `seed`; files of the same content go to the same side, with their hashes. Throws usage unless 0
/// < fraction < 1, data for a class that cannot be divided.
SplitFolder split_stratified(ImageFolder folder, double fraction, uint64_t seed);

}  // namespace whisker
