#include "data/staging/jpeg_staging.h"

#include "data/codec/exif.h"
#include "data/codec/plain_jpeg.h"
#include "data/staging/image_staging.h"

#include <cmath>
#include <utility>
#include <vector>

namespace whisker {
namespace {

constexpr int64_t pixel_alignment = 256;
// Larger images are decoded at reduced scale by the host, which is less work than all of it.
constexpr int64_t most_pixels = 4'000'000;

int64_t pixel_bytes(const PackedJpeg& jpeg) {
  return int64_t{3} * jpeg.height * jpeg.width;
}

// The host's pixels instead of the device's.
void decode_on_host(ImageRows& rows, int64_t row, Decoded& decoded) {
  PackedJpeg& jpeg = rows.jpeg(row);
  decode(bytes_of(jpeg.file), {.max_pixels = int64_t{jpeg.height} * jpeg.width}, decoded);
  make_upright(decoded.image, jpeg.orientation, decoded.scratch);  // the file says nothing of it
  ImageRecord& record = rows.record(row);
  pack_pixels(ImageView(decoded.image, record.crop), record, rows);
  std::string().swap(jpeg.file);
}

}  // namespace

bool row_for_decoder(const ImageRows& rows, int64_t row) {
  if (!rows.decoder) return false;
  const auto decoded_before = [&](int64_t end) {
    return std::floor(static_cast<double>(end) * rows.jpeg_share + 1e-9);
  };
  return decoded_before(row + 1) > decoded_before(row);
}

bool pack_jpeg(const JpegFile& file, ImageRows& rows, int64_t row) {
  const ImageHeader& header = file.header;
  if (header.kind != ImageKind::jpeg) return false;
  if (int64_t{header.height} * header.width > most_pixels) return false;
  std::optional<std::string> plain =
      file.known ? plain_jpeg_again(file.bytes) : plain_jpeg(file.bytes);
  if (!plain) return false;
  if (!file.known && !rows.decoder->accepts(bytes_of(*plain))) return false;
  PackedJpeg& jpeg = rows.jpeg(row);
  jpeg = {.file = *std::move(plain),
          .height = header.height,
          .width = header.width,
          .orientation = header.orientation};
  if (swaps_sides(header.orientation)) std::swap(jpeg.height, jpeg.width);
  return true;
}

int64_t decode_packed(ImageRows& rows, int64_t count) {
  std::vector<JpegImage> images;
  std::vector<int64_t> which;
  int64_t bytes = 0;
  for (int64_t row = 0; row < count; ++row) {
    const PackedJpeg& jpeg = rows.jpeg(row);
    if (jpeg.file.empty()) continue;
    images.push_back({.bytes = bytes_of(jpeg.file),
                      .height = jpeg.height,
                      .width = jpeg.width,
                      .orientation = jpeg.orientation,
                      .at = bytes});
    which.push_back(row);
    bytes += (pixel_bytes(jpeg) + pixel_alignment - 1) / pixel_alignment * pixel_alignment;
  }
  if (images.empty()) return 0;
  rows.decoded = rows.decoder->decode(images, bytes);
  if (!rows.decoded) {
    Decoded decoded;
    for (const int64_t row : which) decode_on_host(rows, row, decoded);
    return std::ssize(which);
  }
  for (size_t i = 0; i < which.size(); ++i) {
    const PackedJpeg& jpeg = rows.jpeg(which[i]);
    ImageRecord& record = rows.record(which[i]);
    record.resident = true;
    set_source(record, reinterpret_cast<int64_t>(rows.decoded->memory()) + images[i].at,
               swaps_sides(jpeg.orientation) ? jpeg.height : jpeg.width);
  }
  return 0;
}

}  // namespace whisker
