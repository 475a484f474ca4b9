// Which JPEG files may be handed to another decoder than our own. Such a decoder tells little of
// what is wrong with a file, and nobody has fuzzed it here, so it only sees files about which
// nothing can be wrong: see Note [Plain JPEG].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace whisker {

// Note [Plain JPEG]
// Baseline (SOF0, ITU T.81), 8 bits, three components of YCbCr at 4:4:4, 4:2:2 or 4:2:0 in one
// interleaved scan, with or without restarts. Every Huffman code of every block is looked up: all
// are there, no block has more than 64 coefficients, each restart marker is the next one, and the
// last block is followed by the end marker. This costs about a third of decoding, as nothing is
// computed. decode() reads every plain JPEG without an error; everything else goes to decode()
// itself, which reads it or says what is wrong.

/// The file as a decoder needs it, if it is plain: without metadata (EXIF, comments, profiles) and
/// whatever follows its end, but with a JFIF header that says YCbCr. Linear in the file's size.
std::optional<std::string> plain_jpeg(std::span<const uint8_t> file);

/// The same of the same bytes at another time, without looking at any code again.
std::optional<std::string> plain_jpeg_again(std::span<const uint8_t> file);

}  // namespace whisker
