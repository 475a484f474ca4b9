// `whisker data arrange`: pictures whose names tell the class, as in Kaggle's train/cat.0.jpg, from
// a folder or a zip archive into class folders.
#pragma once

#include "data/file_walk.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

enum class ArrangeMode { link, copy, move };  ///< link: hard links, or copies across file systems

struct ArrangeOptions {
  std::filesystem::path source = {};  ///< a folder or a zip archive
  std::filesystem::path target =
      {};  ///< made; must not exist or be empty, nor lie inside the source
  std::string label_pattern = "{label}.*";  ///< see data/label_pattern.h
  ArrangeMode mode = ArrangeMode::link;     ///< for folders; an archive's files are always copied
  double val_split = 0;                     ///< share of each class that goes to target/val
  uint64_t seed = 0;                        ///< of the split
  // What an archive may hold, against decompression bombs.
  uint64_t max_files = 10'000'000;
  uint64_t max_file_bytes = uint64_t{1} << 30;
  uint64_t max_total_bytes = 0;  ///< 0: 64 times the archive and 1 GiB more
};

struct ArrangeResult {
  std::filesystem::path train;  ///< target, or target/train with a split
  std::filesystem::path val;    ///< empty without a split
  std::vector<std::string> classes;
  std::vector<int64_t> train_counts;  ///< per class
  std::vector<int64_t> val_counts;
  std::vector<SkippedFile> skipped;
  uint64_t copied_files = 0;  ///< the rest were linked or moved
};

/// Makes target/<label>/<name> (with a split: target/{train,val}/<label>/<name>) of every picture
/// whose name matches. Names in an archive are never used as paths: only the part after the last
/// slash is, and only after a check. Files that share class and name get a number. Throws usage for
/// options that make no sense, data for a source without matching pictures or a damaged or
/// oversized archive, disk when it cannot be written; what was made until then stays.
ArrangeResult arrange_pictures(const ArrangeOptions& options);

}  // namespace whisker
