// How much of wide and tall images a crop to their middle leaves out.
#pragma once

#include "data/images/image_folder.h"

#include <cstdint>
#include <string>

namespace whisker {

struct CroppedImages {
  int64_t images = 0;   ///< of the folder
  int64_t read = 0;     ///< whose header could be read
  int64_t much = 0;     ///< of those: where a square leaves out more than 35 %
  double left_out = 0;  ///< of the median image, between 0 and 1

  /// "data.resize_mode: crop leaves out more than a third of 200 of the 256 images looked at ...";
  /// "" unless that is so of more than half of them.
  std::string note() const;
};

/// Reads the headers of at most `most` images, spread evenly; unreadable ones tell nothing.
CroppedImages find_cropped(const ImageFolder& folder, int workers, int64_t most = 256);

}  // namespace whisker
