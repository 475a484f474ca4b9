// Which images trained a network and which were its validation split: split.csv of a run folder,
// with the columns path (relative to the folder of data), label, split (train or val) and bytes.
#pragma once

#include "data/images/image_folder.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

struct SplitEntry {
  std::string path;  ///< relative, bytes as on disk
  std::string label;
  std::string split;  ///< "train" or "val"
  uint64_t bytes = 0;
};

/// The text of split.csv.
std::string split_csv(const ImageFolder& train, const ImageFolder& val);
/// Reads it back. Throws checkpoint, naming `file`, for anything else.
std::vector<SplitEntry> read_split(const std::filesystem::path& file);

/// Number of `images` that trained the network: those that are a training image below `root`, or
/// whose path ends in a training image's path with the same content (same size if that file is
/// gone).
int64_t count_trained(const std::vector<SplitEntry>& split, const std::filesystem::path& root,
                      const ImageFolder& images);

}  // namespace whisker
