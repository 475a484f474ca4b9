// What `whisker data check` and `data stats` say of folders of images, as text and as JSON.
#pragma once

#include "core/io/json.h"
#include "data/images/image_folder.h"
#include "data/tools/check.h"
#include "data/tools/statistics.h"

#include <string>

namespace whisker {

/// The line on images that are cropped already; "" where they are not.
std::string crop_line(const ImageFolder& folder);
/// Lines of what was assumed and skipped. `val` may be null, here and below.
std::string said_lines(const ImageFolder& train, const ImageFolder* val);

/// `splits`: lines on the splits that were found.
void write_check(JsonWriter& json, const CheckResult& result, const std::string& splits,
                 const ImageFolder& train, const ImageFolder* val);
std::string check_text(const CheckResult& result, const ImageFolder& train, const ImageFolder* val);

/// `said`: lines of what was assumed and skipped.
void write_stats(JsonWriter& json, const FolderStatistics& s, const std::string& said);
std::string stats_text(const FolderStatistics& s);

}  // namespace whisker
