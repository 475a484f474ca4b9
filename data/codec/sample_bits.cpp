#include "data/codec/sample_bits.h"

#include "core/error.h"
#include "core/io/counted.h"

#include <algorithm>

namespace whisker {

int fewest_bits(uint32_t largest) {
  for (const int bits : {8, 10, 12, 14}) {
    if (largest >> bits == 0 && largest > 0) return bits;
  }
  return 16;
}

void PngBits::add(uint32_t sample, int as) {
  if (sample > 0 && sample >> (as - 4) == 0) ++dark;
  largest = std::max(largest, sample);
  bits = fewest_bits(largest);
}

std::string PngBits::note() const {
  if (bits == 16 && dark == 0) return {};
  std::string text =
      fmt::format("data.png_bits is {}: the largest sample in {} of {} of 16 bits is {}", bits,
                  read, counted(files, "file"), largest);
  if (dark > 0) {
    text += fmt::format(", but {} {} samples below {} alone and {} nearly black", dark,
                        dark == 1 ? "has" : "have", 1 << (bits - 4), dark == 1 ? "is" : "are");
  }
  if (bits == 16) return text;
  return text + fmt::format(" (data.png_bits=16 reads them as they are, dark{})",
                            read < files ? "; larger samples of the others are white" : "");
}

std::string PngBits::dark_note(int as) const {
  const bool all = bits < as;
  if (!all && dark == 0) return {};
  return fmt::format(
      "{} samples up to {} and look{} dark, as the weights read {} bits: --input png_bits={} reads "
      "{} bits",
      counted(all ? read : dark, "file of 16 bits holds", "files of 16 bits hold"),
      all ? largest : (1u << (as - 4)) - 1, (all ? read : dark) == 1 ? "s" : "", as,
      all ? bits : as - 4, all ? bits : as - 4);
}

std::string clipped_note(uint32_t largest, int as) {
  if (largest >> as == 0) return {};
  return fmt::format(
      "is {}, and the weights read {} bits, up to {}. --input png_bits=16 reads all samples, "
      "--input png_bits={} larger ones as white",
      largest, as, (1 << as) - 1, as);
}

}  // namespace whisker
