// Reading every image of a folder once, in parallel: what `data check` and `data stats` share.
#pragma once

#include "data/codec/decode.h"
#include "data/images/image_folder.h"

#include <cstdint>
#include <functional>
#include <string>

namespace whisker {

struct ScanOptions {
  int64_t max_pixels = default_max_pixels;
  DecodeRules rules = {};
  int workers = -1;  ///< -1: auto
  /// Progress callback, from any thread, one call at a time.
  std::function<void(int64_t done, int64_t of)> progress = {};
};

/// One image: its file's bytes, and its pixels or why there are none.
struct ScannedImage {
  int64_t index = 0;
  std::span<const uint8_t> bytes;  ///< empty when the file itself could not be read
  const Image* image = nullptr;    ///< null when `error` says why
  std::string error;               ///< without the file's name
};

/// Decodes every image of `folder` exactly and calls `visit` with it, from several threads at once.
/// Unreadable images are visited too; other errors are thrown.
void scan_images(const ImageFolder& folder, const ScanOptions& options,
                 const std::function<void(const ScannedImage&)>& visit);

}  // namespace whisker
