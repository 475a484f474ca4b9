// `whisker data stats`: the class table, how large the pictures are, and the mean and deviation of
// their channels.
#pragma once

#include "data/picture_scan.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct SizeBin {
  int from = 0;  ///< short side in pixels, inclusive
  int to = 0;    ///< exclusive
  int64_t count = 0;
};

struct FolderStatistics {
  struct Class {
    std::string name;
    int64_t files = 0;
    uint64_t bytes = 0;
  };
  std::vector<Class> classes;
  int64_t pictures = 0;                      ///< readable ones; what follows is about them
  std::vector<SkippedFile> unreadable = {};  ///< in the order of the folder's files
  int min_height = 0, max_height = 0;
  int min_width = 0, max_width = 0;
  double mean_height = 0, mean_width = 0;
  std::vector<SizeBin> short_sides;  ///< bins that double: 1, 2, 4, ..., empty ends left out
  /// Of all pixels of all pictures, channels in [0, 1]: what data.mean and data.std take.
  std::array<double, 3> mean{}, deviation{};
};

/// Decodes every picture once. Throws data when none can be read.
FolderStatistics folder_statistics(const ImageFolder& folder, const ScanOptions& options = {});

}  // namespace whisker
