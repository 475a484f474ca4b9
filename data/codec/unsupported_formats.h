// Recognises image files by their first bytes, then by name. Images in unsupported formats are
// skipped and counted by format, so that a message can name them.
#pragma once

#include "data/files/file_walk.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// The formats that are read, for messages.
inline constexpr std::string_view supported_formats =
    "JPEG, PNG, BMP, WebP, PBM, PGM and PPM are supported";

/// Begins the comment of the JPEG files that `classify --cam` writes, which are never data.
inline constexpr std::string_view heat_map_mark = "heat map by whisker classify --cam";
inline constexpr std::string_view heat_map_reason = "written by classify --cam";  ///< SkippedFile's

/// A known file format that the decoders do not support.
struct UnsupportedFormat {
  std::string_view name;   ///< "a GIF image"; empty: supported or unknown
  std::string_view image;  ///< "GIF"; empty: not an image
};
/// Whether `bytes` are the beginning of a PBM, PGM or PPM file: "P6", blanks, a number or a
/// comment.
bool begins_as_pnm(std::span<const uint8_t> bytes);
/// The unsupported format of a file that begins with `bytes`; the first 512 are enough.
UnsupportedFormat detect_unsupported(std::span<const uint8_t> bytes);

/// Those of `files`, below `root`, that are images: with the signature of a supported format, or an
/// image's name and no unsupported image's signature, but no heat maps. The others go to `skipped`,
/// with the reason.
std::vector<WalkedFile> take_images(const std::filesystem::path& root,
                                    std::span<const WalkedFile> files,
                                    std::vector<SkippedFile>& skipped,
                                    int rules = newest_data_rules);

/// WalkedFile::deep and ::alpha of the file `path`, by its beginning.
void set_sample_flags(const std::filesystem::path& path, WalkedFile& file);

/// Number of `files` that are images in unsupported formats.
int64_t count_unsupported_formats(std::span<const SkippedFile> files);
/// Counts by format: "12 HEIC, 1 GIF"; with `others`: "12 HEIC and 3 other files". "" for none.
std::string unsupported_formats(std::span<const SkippedFile> files, bool others = false);

}  // namespace whisker
