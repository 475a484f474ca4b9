#include "data/jpeg_stage.h"

#include "data/exif.h"
#include "data/picture_stage.h"
#include "data/plain_jpeg.h"

#include <cmath>
#include <utility>
#include <vector>

namespace whisker {
namespace {

constexpr int64_t alignment = 256;
// Larger pictures are decoded at reduced scale by the host, which is less work than all of it.
constexpr int64_t most_pixels = 4'000'000;

int64_t pixel_bytes(const StagedJpeg& jpeg) {
  return int64_t{3} * jpeg.height * jpeg.width;
}

// The host's pixels in the place of the device's.
void decode_on_host(PictureRows& rows, int64_t row, Decoded& decoded) {
  StagedJpeg& jpeg = rows.jpeg(row);
  decode(bytes_of(jpeg.file), {.max_pixels = int64_t{jpeg.height} * jpeg.width}, decoded);
  make_upright(decoded.picture, jpeg.orientation, decoded.scratch);  // the file says nothing of it
  stage_pixels(PictureView(decoded.picture, jpeg.crop), rows.record(row), rows);
  std::string().swap(jpeg.file);
}

}  // namespace

bool row_for_decoder(const PictureRows& rows, int64_t row) {
  if (!rows.decoder) return false;
  const auto taken_before = [&](int64_t count) {
    return std::floor(static_cast<double>(count) * rows.jpeg_share + 1e-9);
  };
  return taken_before(row + 1) > taken_before(row);
}

bool stage_jpeg(const JpegToStage& given, PictureRows& rows, int64_t row) {
  const PictureHeader& header = given.header;
  if (header.kind != PictureKind::jpeg) return false;
  if (int64_t{header.height} * header.width > most_pixels) return false;
  std::optional<std::string> plain =
      given.known ? plain_jpeg_again(given.file) : plain_jpeg(given.file);
  if (!plain) return false;
  if (!given.known && !rows.decoder->accepts(bytes_of(*plain))) return false;
  StagedJpeg& jpeg = rows.jpeg(row);
  jpeg = {.file = *std::move(plain),
          .height = header.height,
          .width = header.width,
          .orientation = header.orientation,
          .crop = given.crop};
  if (swaps_sides(header.orientation)) std::swap(jpeg.height, jpeg.width);
  return true;
}

int64_t decode_staged(PictureRows& rows, int64_t count) {
  std::vector<JpegPicture> pictures;
  std::vector<int64_t> which;
  int64_t bytes = 0;
  for (int64_t row = 0; row < count; ++row) {
    const StagedJpeg& jpeg = rows.jpeg(row);
    if (jpeg.file.empty()) continue;
    pictures.push_back({.bytes = bytes_of(jpeg.file),
                        .height = jpeg.height,
                        .width = jpeg.width,
                        .orientation = jpeg.orientation,
                        .at = bytes});
    which.push_back(row);
    bytes += (pixel_bytes(jpeg) + alignment - 1) / alignment * alignment;
  }
  if (pictures.empty()) return 0;
  rows.decoded = rows.decoder->decode(pictures, bytes);
  if (!rows.decoded) {
    Decoded decoded;
    for (const int64_t row : which) decode_on_host(rows, row, decoded);
    return std::ssize(which);
  }
  for (size_t i = 0; i < which.size(); ++i) {
    const StagedJpeg& jpeg = rows.jpeg(which[i]);
    const int64_t width = swaps_sides(jpeg.orientation) ? jpeg.height : jpeg.width;
    PictureRecord& record = rows.record(which[i]);
    record.resident = true;
    record.stride = int64_t{3} * width;
    record.offset = reinterpret_cast<int64_t>(rows.decoded->memory()) + pictures[i].at +
                    jpeg.crop.top * record.stride + int64_t{3} * jpeg.crop.left;
  }
  return 0;
}

}  // namespace whisker
