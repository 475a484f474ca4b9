// Sensors of 10, 12 or 14 bits write PNG files of 16, which are nearly black as they are.
#pragma once

#include "data/images/image_folder.h"

#include <cstdint>
#include <string>

namespace whisker {

/// How many bits the samples of a folder's 16-bit PNG files have.
struct PngBits {
  int bits = 16;  ///< 8, 10, 12, 14 or 16: the fewest that hold them all
  int64_t files = 0, read = 0;
  uint32_t largest = 0;  ///< sample of those read

  /// "data.png_bits is 12: ..."; "" for 16.
  std::string note() const;
};
/// For weights that read them as 16 bits: "3 PNG files ... --input png_bits=12"; "" for none.
std::string dark_pngs_note(int64_t count);

/// Reads at most `most` of these files, spread evenly; unreadable ones tell nothing.
PngBits find_png_bits(const ImageFolder& folder, int workers, int64_t most = 32);

}  // namespace whisker
