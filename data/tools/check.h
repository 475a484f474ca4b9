// `whisker data check`: finds errors in a data set before training.
#pragma once

#include "data/tools/image_scan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct BadFile {
  bool in_val = false;
  int64_t index = 0;  ///< in its folder
  std::string reason;
};

struct FoundFile {
  bool in_val = false;
  int64_t index = 0;
};

/// Files that show the same image.
struct DuplicateGroup {
  bool same_bytes = false;       ///< else only the same pixels (another name, comment or EXIF)
  bool across_splits = false;    ///< both in train and in val: validation is too good
  bool across_classes = false;   ///< under different labels: one must be wrong
  std::vector<FoundFile> files;  ///< two or more, train before val, by index
};

struct CheckResult {
  /// Sentences about the folders: classes without images, folders that cannot be read, classes that
  /// only one of train and val has.
  std::vector<std::string> problems;
  /// What a run assumes: names that match in another normal form, classes that differ little.
  std::vector<std::string> notes;
  int64_t images = 0;
  std::vector<BadFile> bad;  ///< train before val, by index
  /// Files with the same content, and images with the same pixels that differ in bytes.
  std::vector<DuplicateGroup> duplicates;
  int64_t duplicates_across_splits = 0;  ///< groups
  int64_t duplicates_across_classes = 0;
};

/// Reads every image of `train` and, unless null, `val`.
CheckResult check_images(const ImageFolder& train, const ImageFolder* val,
                         const ScanOptions& options = {});

}  // namespace whisker
