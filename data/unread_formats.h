// Files that are left out of a data set, counted by their names' ends: pictures of formats that are
// not read should not be missed in silence.
#pragma once

#include "data/file_walk.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// Whether the name ends as a picture's of a format that is not read: .gif, .webp, .tif, .tiff,
/// .heic, .heif, .avif, .jxl.
bool has_unread_format(std::string_view name);
/// How many of the files do.
int64_t count_unread_formats(std::span<const SkippedFile> files);
/// "12 .webp, 1 .gif"; with `others` also the rest: "12 .webp and 3 other files". "" for none.
std::string unread_formats(std::span<const SkippedFile> files, bool others = false);

}  // namespace whisker
