// Reading every picture of a folder once, in parallel: what `data check` and `data stats` share.
#pragma once

#include "data/decode.h"
#include "data/image_folder.h"

#include <cstdint>
#include <functional>
#include <string>

namespace whisker {

struct ScanOptions {
  int64_t max_pixels = default_max_pixels;
  int workers = -1;  ///< -1: auto
  /// Called now and then with how many pictures are done, from any thread, one at a time.
  std::function<void(int64_t done, int64_t of)> progress = {};
};

/// One picture: its file's bytes, and its pixels or why there are none.
struct ScannedPicture {
  int64_t index = 0;
  std::span<const uint8_t> bytes;    ///< empty when the file itself could not be read
  const Picture* picture = nullptr;  ///< null when `error` says why
  std::string error;                 ///< without the file's name
};

/// Decodes every picture of `folder` exactly and shows it to `visit`, which several threads call at
/// once. Unreadable pictures are shown too; only other errors are thrown.
void scan_pictures(const ImageFolder& folder, const ScanOptions& options,
                   const std::function<void(const ScannedPicture&)>& visit);

}  // namespace whisker
