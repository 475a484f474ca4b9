// Decoded pictures kept for the next epoch: in memory up to a cap, or in one packed file.
#pragma once

#include "data/image_folder.h"
#include "data/picture.h"

#include <cstdint>
#include <filesystem>
#include <memory>

namespace whisker {

/// Thread-safe. What fits into a cache never matters to the pixels: with a cache every picture is
/// decoded exactly. Without one, training crops may be decoded scaled (see DecodeOptions::fast).
class PictureCache {
 public:
  virtual ~PictureCache() = default;
  /// Copies picture `index` into `out`, or returns false when it is not there.
  virtual bool get(int64_t index, Picture& out) const = 0;
  /// Keeps a copy if there is room.
  virtual void put(int64_t index, const Picture& picture) = 0;
};

/// Keeps up to `max_bytes` of pixels of `size` pictures, first come first served.
std::unique_ptr<PictureCache> memory_cache(int64_t size, uint64_t max_bytes);

struct PackOptions {
  int64_t max_pixels = 0;
  int short_side = 0;
  int workers = -1;  ///< -1: auto
};

// Note [Packed file]
//   8 bytes   magic "WHSKPACK"
//   pixels    of all pictures, (H, W, 3) u8, one after another
//   index     one {u64 offset, u32 height, u32 width} per picture, 0 x 0 for an unreadable one
//   trailer   u64 picture count, u64 XXH64 of the index, u64 fingerprint, 8 bytes magic again
// All little-endian. The fingerprint covers the folder's, how pictures were decoded and the
// format's version; a file whose trailer does not fit is made anew, never repaired.

/// The packed file of `folder` at `file`, read through a mapping; made first, atomically, when it
/// is missing or does not belong to these data. Throws disk when it cannot be written, usage when
/// its folder does not exist.
std::unique_ptr<PictureCache> disk_cache(const ImageFolder& folder,
                                         const std::filesystem::path& file,
                                         const PackOptions& options);

}  // namespace whisker
