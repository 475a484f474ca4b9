// Counts the prefix codes that a lossless WebP stream needs. libwebp allocates memory for all of
// them at once and has no limit: a file of 160 KB could need 1.3 GB. They are counted first.
#pragma once

#include "data/codec/decode_formats.h"

#include <cstdint>

namespace whisker::formats {

/// The entries of the entropy image of a stream of width x height pixels, each of which may have a
/// group of prefix codes of its own (RFC 9649, section 3.7.2.2); 1 without an entropy image, and
/// where the stream is damaged before it, which libwebp refuses.
int64_t webp_code_groups(Bytes stream, int64_t width, int64_t height);

}  // namespace whisker::formats
