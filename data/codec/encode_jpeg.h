// Writing JPEG files: for drawn images only; Whisker never rewrites a user's photographs.
#pragma once

#include "data/codec/image.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct JpegOptions {
  int quality = 90;     ///< 1 to 100
  std::string comment;  ///< stored in a COM segment when not empty
};

/// The bytes of a baseline JPEG with halved color (4:2:0). Throws usage for an empty image.
std::vector<uint8_t> encode_jpeg(const Image& image, const JpegOptions& options);

}  // namespace whisker
