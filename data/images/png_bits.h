// How many bits the samples of a folder's files of 16 bits have.
#pragma once

#include "data/codec/sample_bits.h"
#include "data/images/image_folder.h"

#include <cstdint>

namespace whisker {

/// Reads at most `most` of these files, spread evenly; unreadable ones tell nothing. `as`: the bits
/// by which they are dark; 0: those found.
PngBits find_png_bits(const ImageFolder& folder, int workers, int64_t most = 32, int as = 0);

}  // namespace whisker
