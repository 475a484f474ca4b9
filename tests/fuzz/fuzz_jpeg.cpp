// Any bytes as a JPEG: pixels or one data error, decoded whole and as a crop whose place and target
// the last bytes choose. The crop alone has the same pixels, or none either. A plain file gives
// pixels, with and without its metadata.
#include "core/error.h"
#include "data/codec/decode.h"
#include "data/codec/plain_jpeg.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace {

constexpr int64_t max_pixels = 1 << 20;

// The crop that four bytes ask for, inside the image.
whisker::CropRequest crop_from(std::span<const uint8_t> bytes, const whisker::ImageHeader& header) {
  const auto at = [&](size_t i) { return int{bytes[bytes.size() - 1 - i]}; };
  whisker::Rect crop;
  crop.left = header.width * at(0) / 256;
  crop.top = header.height * at(1) / 256;
  crop.width = 1 + (header.width - crop.left - 1) * at(2) / 255;
  crop.height = 1 + (header.height - crop.top - 1) * at(3) / 255;
  return {crop, 1 + at(4) % 64, 1 + at(5) % 64};
}

// The whole image, or only `part` of it; nothing: a data error.
std::optional<whisker::Image> decoded(std::span<const uint8_t> bytes,
                                      std::optional<whisker::Rect> part) {
  try {
    whisker::Decoded out;
    whisker::decode(bytes, {.max_pixels = max_pixels, .part = part}, out);
    return std::move(out.image);
  } catch (const whisker::Error& error) {
    if (error.kind() != whisker::ErrorKind::data) std::abort();
    return {};
  }
}

void check_part(const whisker::Image& whole, const whisker::Image& image,
                const whisker::Rect& part) {
  for (int y = part.top; y < part.top + part.height; ++y) {
    const size_t left = size_t{3} * static_cast<size_t>(part.left);
    const size_t bytes = size_t{3} * static_cast<size_t>(part.width);
    if (std::memcmp(whole.row(y) + left, image.row(y) + left, bytes) != 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(data, size);
  if (size < 8 || data[0] != 0xFF || data[1] != 0xD8) return 0;
  bool must_be_readable = false;
  try {
    const whisker::ImageHeader header = whisker::read_header(bytes, max_pixels);
    const whisker::CropRequest request = crop_from(bytes, header);
    try {
      whisker::Decoded part;
      whisker::decode(bytes, {.max_pixels = max_pixels, .fast = request}, part);
      const auto [view, box] = whisker::crop_view(part, request.crop);
      if (view.width < 1 || box.x1 <= box.x0 || box.x1 > view.width || box.y1 > view.height)
        std::abort();
    } catch (const whisker::Error& error) {
      if (error.kind() != whisker::ErrorKind::data) std::abort();
    }
    const auto plain = whisker::plain_jpeg(bytes);
    must_be_readable = plain.has_value();
    if (plain) {
      const auto* const begin = reinterpret_cast<const uint8_t*>(plain->data());
      const whisker::Image stored = whisker::decode({begin, plain->size()}, max_pixels);
      if (int64_t{stored.width} * stored.height != int64_t{header.width} * header.height)
        std::abort();
    }
    const auto image = decoded(bytes, {}), around_crop = decoded(bytes, request.crop);
    if (image.has_value() != around_crop.has_value()) std::abort();
    if (!image && must_be_readable) std::abort();
    if (!image) return 0;
    if (image->width != header.width || image->height != header.height) std::abort();
    check_part(*image, *around_crop, request.crop);
  } catch (const whisker::Error& error) {
    if (error.kind() != whisker::ErrorKind::data || must_be_readable) std::abort();
  }
  return 0;
}
