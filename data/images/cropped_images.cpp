#include "data/images/cropped_images.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/file.h"
#include "data/codec/decode.h"
#include "data/parallel.h"

#include <algorithm>
#include <vector>

namespace whisker {

std::string CroppedImages::note() const {
  if (2 * much <= read) return {};
  return fmt::format(
      "data.resize_mode: crop leaves out more than a third of {} of {}{}, and {:.0f} % of the "
      "median one; squash and letterbox show the network whole images",
      much, counted(read, "image"),
      read < images ? fmt::format(" looked at (of {})", images) : std::string(), 100 * left_out);
}

CroppedImages find_cropped(const ImageFolder& folder, int workers, int64_t most) {
  CroppedImages found{.images = folder.size()};
  const int64_t count = std::min(found.images, most);
  std::vector<double> parts(static_cast<size_t>(count), -1);
  parallel_for(count, workers, [&](int64_t i) {
    try {
      const MappedFile file(folder.file(i * found.images / count), ErrorKind::data);
      const auto* bytes = reinterpret_cast<const uint8_t*>(file.bytes().data());
      const ImageHeader image = read_header({bytes, file.bytes().size()});
      parts[static_cast<size_t>(i)] = 1 - static_cast<double>(std::min(image.height, image.width)) /
                                              std::max(image.height, image.width);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
    }
  });
  std::erase(parts, -1);
  found.read = std::ssize(parts);
  if (parts.empty()) return found;
  // Photographs of 3:2 lose a third, but for rounding (500 x 333), and are what crops are made for.
  found.much = std::ranges::count_if(parts, [](double part) { return part > 0.35; });
  const auto median = parts.begin() + found.read / 2;
  std::ranges::nth_element(parts, median);
  found.left_out = *median;
  return found;
}

}  // namespace whisker
