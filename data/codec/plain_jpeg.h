// Which JPEG files a device's decoder may get. Such a decoder reports errors poorly and is not
// fuzzed here, so it only gets files that were checked in full: see Note [Plain JPEG].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace whisker {

// Note [Plain JPEG] Baseline (SOF0, ITU T.81), 8 bits, three components of YCbCr at 4:4:4, 4:2:2 or
// 4:2:0 in one interleaved scan, with or without restarts, followed by the end marker. libjpeg has
// read all of it without a warning, at an eighth of the image's sides: so nothing is missing, and
// decode() reads every plain JPEG without an error. Everything else goes to decode(), which reads
// it or reports the error.

/// The file for a device's decoder, if it is plain: without metadata (EXIF, comments, profiles) and
/// trailing bytes, with a JFIF header for YCbCr. Linear in the file's size.
std::optional<std::string> plain_jpeg(std::span<const uint8_t> file);

/// Like plain_jpeg() for bytes that it has accepted before: the scan is not read again.
std::optional<std::string> plain_jpeg_again(std::span<const uint8_t> file);

}  // namespace whisker
