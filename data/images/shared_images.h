// Images that two lists have in common, by content: copies under other names and in other folders
// count.
#pragma once

#include "data/images/image_folder.h"

#include <cstdint>
#include <string>

namespace whisker {

struct SharedImages {
  int64_t count = 0;         ///< images of the first list whose content the second one has
  std::string example = {};  ///< the path of one of them
  int64_t unread = 0;        ///< images of the first list that time did not suffice for
};

/// Compares `images` with `others`. The same path and size is the same image; else files of sizes
/// that both lists have are read, on all cores, for at most `seconds`. Files that cannot be read
/// are equal to no other; where the whole folder of `others` is gone, the same path within it and
/// the same size is the same image.
SharedImages find_shared(const ImageFolder& images, const ImageFolder& others, double seconds = 5);

}  // namespace whisker
