// Writing JPEG files: for drawn pictures only; Whisker never rewrites a user's photographs.
#pragma once

#include "data/picture.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct JpegOptions {
  int quality = 90;     ///< 1 to 100
  std::string comment;  ///< stored in a COM segment when not empty
};

/// The bytes of a baseline JPEG with halved color (4:2:0). Throws usage for an empty picture.
std::vector<uint8_t> encode_jpeg(const Picture& picture, const JpegOptions& options);

}  // namespace whisker
