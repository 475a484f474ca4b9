#include "data/staging/jpeg_staging.h"

#include "core/error.h"
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

}  // namespace

bool row_for_decoder(const ImageRows& rows, int64_t row) {
  if (!rows.decoder) return false;
  const auto decoded_before = [&](int64_t end) {
    return std::floor(static_cast<double>(end) * rows.jpeg_share + 1e-9);
  };
  return decoded_before(row + 1) > decoded_before(row);
}

bool pack_jpeg(const JpegFile& file, ImageRows& rows, int64_t row) {
  const auto& [kind, height, width, orientation] = file.header;
  if (kind != ImageKind::jpeg || orientation > 1) return false;
  if (int64_t{height} * width > most_pixels) return false;
  std::optional<std::string> plain =
      file.known ? plain_jpeg_again(file.bytes) : plain_jpeg(file.bytes);
  if (!plain) return false;
  if (!file.known && !rows.decoder->accepts(bytes_of(*plain))) return false;
  rows.jpeg(row) = {.file = *std::move(plain), .height = height, .width = width};
  return true;
}

std::string decode_packed(ImageRows& rows, int64_t count) {
  std::vector<JpegImage> images;
  std::vector<int64_t> which;
  int64_t bytes = 0;
  for (int64_t row = 0; row < count; ++row) {
    const PackedJpeg& jpeg = rows.jpeg(row);
    if (jpeg.file.empty()) continue;
    images.push_back({.bytes = bytes_of(jpeg.file),
                      .height = jpeg.height,
                      .width = jpeg.width,
                      .at = bytes});
    which.push_back(row);
    const int64_t own = int64_t{3} * jpeg.height * jpeg.width;
    bytes += (own + pixel_alignment - 1) / pixel_alignment * pixel_alignment;
  }
  if (images.empty()) return "";
  std::string refusal;
  try {
    rows.decoded = rows.decoder->decode(images, bytes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    refusal = error.what();
  }
  Decoded host;
  for (size_t i = 0; i < which.size(); ++i) {
    ImageRecord& record = rows.record(which[i]);
    if (rows.decoded) {
      record.resident = true;
      set_source(record, reinterpret_cast<int64_t>(rows.decoded->memory()) + images[i].at,
                 images[i].width);
    } else {
      decode(images[i].bytes, {.max_pixels = most_pixels}, host);
      pack_pixels(ImageView(host.image, record.crop), record, rows);
      std::string().swap(rows.jpeg(which[i]).file);
    }
  }
  return refusal;
}

}  // namespace whisker
