#include "data/images/png_bits.h"

#include "core/error.h"
#include "core/io/file.h"
#include "data/codec/decode.h"
#include "data/parallel.h"

#include <algorithm>
#include <vector>

namespace whisker {
PngBits find_png_bits(const ImageFolder& folder, int workers, int64_t most, int as) {
  std::vector<int64_t> deep;
  for (int64_t i = 0; i < folder.size(); ++i) {
    if (folder.files[static_cast<size_t>(i)].deep) deep.push_back(i);
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
  if (as == 0 && !largest.empty()) as = fewest_bits(*std::ranges::max_element(largest));
  for (const uint32_t one : largest) found.add(one, as);
  return found;
}

}  // namespace whisker
