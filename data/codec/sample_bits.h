// Sensors of 10, 12 or 14 bits write PNG, PGM and PPM files of 16, which are nearly black as they
// are.
#pragma once

#include <cstdint>
#include <string>

namespace whisker {

/// The fewest of 8, 10, 12, 14 and 16 bits that hold samples up to `largest`; of 0: 16.
int fewest_bits(uint32_t largest);

/// How many bits the samples of files of 16 bits have.
struct PngBits {
  int bits = 16;  ///< 8, 10, 12, 14 or 16: the fewest that hold them all
  int64_t files = 0, read = 0;
  int64_t dark = 0;      ///< of those read: nearly black, as their samples have 4 bits fewer
  uint32_t largest = 0;  ///< sample of those read

  /// Adds a file that is read as one of `as` bits.
  void add(uint32_t sample, int as);
  /// "data.png_bits is 12: ..."; "" for 16, unless some files are dark.
  std::string note() const;
  /// The note for weights that read `as` bits, where these files have fewer: "3 files ... --input
  /// png_bits=12"; "" for none.
  std::string dark_note(int as) const;
};

/// The note on samples up to `largest` that weights read as `as` bits: "" or, behind the words
/// "largest sample", that it is too large, and the two options.
std::string clipped_note(uint32_t largest, int as);

}  // namespace whisker
