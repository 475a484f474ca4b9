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
/// Hashes are kept in both lists, so that no file is read twice.
SharedImages find_shared(ImageFolder& images, ImageFolder& others, double seconds = 5);

/// The contradicting labels of `images`, files of equal size being read for at most `seconds`.
struct ContradictingImages : Contradictions {
  int64_t unread = 0;  ///< that time did not suffice for
};
ContradictingImages find_contradictions(ImageFolder& images, double seconds = 5);

}  // namespace whisker
