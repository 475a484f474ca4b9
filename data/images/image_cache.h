// Decoded images kept for the next epoch: in memory up to a limit, or in one packed file.
#pragma once

#include "data/codec/image.h"
#include "data/images/file_stamps.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace whisker {

/// Thread-safe. The pixels do not depend on what fits: with a cache every image is decoded exactly.
/// Without one, training crops may be decoded scaled (see DecodeOptions::fast).
class ImageCache {
 public:
  virtual ~ImageCache() = default;
  /// Copies image `index` into `out`; returns false when it is not cached.
  virtual bool get(int64_t index, Image& out) const = 0;
  /// Keeps a copy if it fits.
  virtual void put(int64_t index, const Image& image) = 0;
  /// A message for the user about events since the last call; "" for none.
  virtual std::string take_note() { return {}; }
};

/// Keeps up to `max_bytes` of pixels of `size` images, first come first served.
std::unique_ptr<ImageCache> memory_cache(int64_t size, uint64_t max_bytes);

struct PackOptions {
  int64_t max_pixels = 0;
  DecodeRules rules = {};
  int short_side = 0;
  int workers = -1;  ///< -1: auto
};

// Note [Packed file]
//   8 bytes   magic "WHSKPACK"
//   pixels    of all images, (H, W, 3) u8, one after another
//   index     one entry per image: u64 offset, u32 height, u32 width (0 x 0 for an unreadable one),
//             u64 XXH64 of its pixels, and of its own file i64 time of change and u64 XXH64
//   trailer   u64 image count, u64 XXH64 of the index, u64 fingerprint, 8 bytes magic again
// All little-endian. The fingerprint covers the folder's, how images were decoded and the format's
// version. An image's pixels are checked against their hash at every read: damaged ones are decoded
// again from the image's file and, if unchanged, written back. The file is rebuilt when its trailer
// does not match or an image has changed.

/// The packed file of `folder` at `file`; built first, atomically, when it is missing or belongs to
/// other data. Copies its content hashes to `stamps`. Throws disk when it cannot be written, usage
/// when its folder does not exist or `file` is not a packed file, which is never replaced.
std::unique_ptr<ImageCache> disk_cache(const ImageFolder& folder, const std::filesystem::path& file,
                                       const PackOptions& options, FileStamps& stamps);

}  // namespace whisker
