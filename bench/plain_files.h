// How fast files of JPEG are looked through and decoded on a device by themselves, without a
// loader.
#pragma once

#include "core/image/jpeg_decoder.h"
#include "data/images/image_folder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

/// The plain files of a folder, in memory.
class PlainFiles {
 public:
  PlainFiles(const ImageFolder& folder, JpegDecoder& decoder);

  struct Checked {
    double files_per_s = 0;
    double accepted = 0;  ///< share of them that the decoder takes
  };
  /// What comes before a file is handed to the decoder, by `workers` threads.
  Checked check(int workers) const;

  struct Decoded {
    double files_per_s = 0;
    int64_t files_per_batch = 0;
    int64_t refused_batches = 0;
  };
  /// Batches of `count` files (of those of them that the decoder takes), `at_a_time` threads each
  /// with one of its own.
  Decoded decode(int64_t count, int at_a_time) const;

 private:
  std::vector<std::string> files_;
  JpegDecoder& decoder_;
};

}  // namespace whisker
