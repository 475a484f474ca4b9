// `whisker data stats`: the class table, image sizes, and mean and standard deviation of the
// channels.
#pragma once

#include "data/tools/image_scan.h"

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
  int64_t images = 0;                        ///< readable ones; what follows is about them
  std::vector<SkippedFile> unreadable = {};  ///< in the order of the folder's files
  int min_height = 0, max_height = 0;
  int min_width = 0, max_width = 0;
  double mean_height = 0, mean_width = 0;
  std::vector<SizeBin> short_sides;  ///< bins from 1, 2, 4, ... on, without empty ends
  /// Statistics of all pixels of all images, channels in [0, 1]: values for data.mean and data.std.
  std::array<double, 3> mean{}, deviation{};
};

/// Decodes every image once. Throws data when none can be read.
FolderStatistics folder_statistics(const ImageFolder& folder, const ScanOptions& options = {});

}  // namespace whisker
