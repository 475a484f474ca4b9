// Recognises image files by their first bytes, then by name. Images in unsupported formats are
// skipped and counted by format, so that a message can name them.
#pragma once

#include "data/files/file_walk.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// For messages.
inline constexpr std::string_view supported_formats = "JPEG, PNG, BMP and WebP are supported";

/// A known file format that the decoders do not support.
struct UnsupportedFormat {
  std::string_view name;   ///< "a GIF image"; empty: supported or unknown
  std::string_view image;  ///< "GIF"; empty: not an image
};
/// The unsupported format of a file that begins with `bytes`; the first 512 are enough.
UnsupportedFormat detect_unsupported(std::span<const uint8_t> bytes);

/// For each file below `root`, why it is skipped; empty for an image. An image has the signature of
/// a supported format, or an image's name and no unsupported image's signature.
std::vector<std::optional<SkippedFile>> skip_reasons(const std::filesystem::path& root,
                                                     std::span<const WalkedFile> files);

/// Number of `files` that are images in unsupported formats.
int64_t count_unsupported_formats(std::span<const SkippedFile> files);
/// Counts by format: "12 HEIC, 1 GIF"; with `others`: "12 HEIC and 3 other files". "" for none.
std::string unsupported_formats(std::span<const SkippedFile> files, bool others = false);

}  // namespace whisker
