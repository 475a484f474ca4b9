#include "data/images/png_bits.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/file.h"
#include "data/codec/decode.h"
#include "data/parallel.h"

#include <algorithm>
#include <vector>

namespace whisker {

std::string PngBits::note() const {
  if (bits == 16) return {};
  return fmt::format(
      "data.png_bits is {}: the largest sample in {} of {} of 16 bits is {} "
      "(data.png_bits=16 reads them as they are, dark)",
      bits, read, counted(files, "PNG file"), largest);
}

std::string dark_pngs_note(int64_t count) {
  if (count == 0) return {};
  return fmt::format(
      "{} samples below 4096 and look{} nearly black: --input png_bits=12 reads 12 bits",
      counted(count, "PNG file of 16 bits holds", "PNG files of 16 bits hold"),
      count == 1 ? "s" : "");
}

PngBits find_png_bits(const ImageFolder& folder, int workers, int64_t most) {
  std::vector<int64_t> deep;
  for (int64_t i = 0; i < folder.size(); ++i) {
    if (folder.files[static_cast<size_t>(i)].deep_png) deep.push_back(i);
  }
  PngBits found{.files = std::ssize(deep), .read = std::min(std::ssize(deep), most)};
  std::vector<uint32_t> largest(static_cast<size_t>(found.read));
  parallel_for(found.read, workers, [&](int64_t i) {
    const int64_t index = deep[static_cast<size_t>(i * found.files / found.read)];
    try {
      const std::string bytes = read_file(folder.file(index), max_image_bytes, ErrorKind::data);
      Decoded decoded;
      decode(bytes_of(bytes), {}, decoded);
      largest[static_cast<size_t>(i)] = decoded.largest_sample;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
    }
  });
  for (const uint32_t one : largest) found.largest = std::max(found.largest, one);
  if (found.largest == 0) return found;
  for (const int bits : {14, 12, 10, 8}) {
    if (found.largest >> bits == 0) found.bits = bits;
  }
  return found;
}

}  // namespace whisker
