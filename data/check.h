// `whisker data check`: what is wrong with a data set before hours are spent on it.
#pragma once

#include "data/picture_scan.h"

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

/// Files that show the same picture.
struct DuplicateGroup {
  bool same_bytes = false;       ///< else only the same pixels (another name, comment or EXIF)
  bool across_splits = false;    ///< both in train and in val: validation flatters
  bool across_classes = false;   ///< under different labels: one must be wrong
  std::vector<FoundFile> files;  ///< two or more, train before val, by index
};

struct CheckResult {
  int64_t pictures = 0;
  std::vector<BadFile> bad;  ///< train before val, by index
  /// Files with the same content, and pictures with the same pixels that differ in bytes.
  std::vector<DuplicateGroup> duplicates;
  int64_t duplicates_across_splits = 0;  ///< groups
  int64_t duplicates_across_classes = 0;
};

/// Reads every picture of `train` and, unless null, `val`, which must have the same classes.
CheckResult check_pictures(const ImageFolder& train, const ImageFolder* val,
                           const ScanOptions& options = {});

}  // namespace whisker
