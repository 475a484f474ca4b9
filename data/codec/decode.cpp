#include "data/codec/decode.h"

#include "core/error.h"
#include "core/io/text.h"
#include "core/work_progress.h"
#include "data/codec/decode_formats.h"
#include "data/codec/exif.h"
#include "data/codec/unsupported_formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

namespace whisker {
namespace formats {

void check_extents(int64_t width, int64_t height, int64_t max_pixels) {
  constexpr int64_t max_side = 65535;
  if (width <= 0 || height <= 0) {
    fail(ErrorKind::data, "image without pixels: {}x{}", width, height);
  }
  if (width > max_side || height > max_side) {
    fail(ErrorKind::data, "image too large: {}x{}, a side may have at most {} pixels", width,
         height, max_side);
  }
  if (width * height > max_pixels) {
    fail(ErrorKind::data, "image too large: {}x{} is over data.max_pixels = {}", width, height,
         max_pixels);
  }
}

}  // namespace formats

namespace {

using formats::Bytes;

using std::string_view_literals::operator""sv;

bool has(Bytes bytes, size_t at, std::string_view expected) {
  return bytes.size() >= at + expected.size() &&
         std::memcmp(bytes.data() + at, expected.data(), expected.size()) == 0;
}

[[noreturn]] void fail_unknown(Bytes bytes) {
  if (bytes.empty()) fail(ErrorKind::data, "empty file");
  if (const UnsupportedFormat format = detect_unsupported(bytes); !format.name.empty()) {
    fail(ErrorKind::data, "{}; {}", format.name, supported_formats);
  }
  const Bytes head = bytes.first(std::min<size_t>(bytes.size(), 512));
  const bool zeros = std::all_of(head.begin(), head.end(), [](uint8_t byte) { return byte == 0; });
  if (zeros) {
    fail(ErrorKind::data, "no image: the file starts with zeros (a lost or sparse copy?)");
  }
  const bool text = std::all_of(head.begin(), head.end(), [](uint8_t byte) {
    return (byte >= 32 && byte < 127) || byte == '\n' || byte == '\r' || byte == '\t';
  });
  fail(ErrorKind::data, "{}; {}", text ? "a text file, no image" : "no known image format",
       supported_formats);
}

ImageKind kind_of(Bytes bytes) {
  if (bytes.size() > max_image_bytes) {
    fail(ErrorKind::data, "file too large: {}, at most {} are read as an image",
         human_bytes(bytes.size()), human_bytes(max_image_bytes));
  }
  if (has(bytes, 0, "\xFF\xD8"sv)) return ImageKind::jpeg;
  if (has(bytes, 0, "\x89PNG\r\n\x1A\n"sv)) return ImageKind::png;
  if (has(bytes, 0, "BM"sv) && bytes.size() >= 18) return ImageKind::bmp;
  if (has(bytes, 0, "RIFF"sv) && has(bytes, 8, "WEBP"sv)) return ImageKind::webp;
  if (begins_as_pnm(bytes)) return ImageKind::pnm;
  fail_unknown(bytes);
}

formats::StoredHeader stored_header(ImageKind kind, Bytes bytes, int64_t max_pixels, int rules) {
  const auto header = kind == ImageKind::jpeg   ? formats::jpeg_header(bytes, rules)
                      : kind == ImageKind::png  ? formats::png_header(bytes, rules)
                      : kind == ImageKind::webp ? formats::webp_header(bytes, rules)
                      : kind == ImageKind::pnm  ? formats::pnm_header(bytes)
                                                : formats::bmp_header(bytes);
  formats::check_extents(header.width, header.height, max_pixels);
  return header;
}

ImageHeader upright_header(ImageKind kind, const formats::StoredHeader& stored) {
  ImageHeader header{kind, stored.height, stored.width, stored.orientation};
  if (swaps_sides(stored.orientation)) std::swap(header.height, header.width);
  return header;
}

// The strongest reduction at which the crop still has a source pixel for every target pixel.
int scale_for(const CropRequest& request) {
  for (const int scale : {8, 4, 2}) {
    if (request.crop.width >= scale * request.target_width &&
        request.crop.height >= scale * request.target_height) {
      return scale;
    }
  }
  return 1;
}

void check_crop(const Rect& crop, const ImageHeader& header) {
  if (crop.left < 0 || crop.top < 0 || crop.width < 1 || crop.height < 1 ||
      crop.width > header.width - crop.left || crop.height > header.height - crop.top) {
    fail(ErrorKind::usage, "decode: crop {}x{} at ({},{}) is not inside the {}x{} image",
         crop.width, crop.height, crop.left, crop.top, header.width, header.height);
  }
}

}  // namespace

ImageHeader read_header(std::span<const uint8_t> bytes, int64_t max_pixels,
                        const DecodeRules& rules) {
  const ImageKind kind = kind_of(bytes);
  return upright_header(kind, stored_header(kind, bytes, max_pixels, rules.version));
}

void decode(std::span<const uint8_t> bytes, const DecodeOptions& options, Decoded& out) {
  const ImageKind kind = kind_of(bytes);
  const auto stored = stored_header(kind, bytes, options.max_pixels, options.rules.version);
  const ImageHeader header = upright_header(kind, stored);
  out.full_height = header.height;
  out.full_width = header.width;
  out.scale = 1;
  out.origin_x = 0;
  out.origin_y = 0;
  if (options.fast) check_crop(options.fast->crop, header);
  const Rect part = options.part.value_or(Rect{0, 0, header.width, header.height});
  check_crop(part, header);

  formats::Samples samples;
  if (kind == ImageKind::jpeg && options.fast) {
    const int scale = scale_for(*options.fast);
    const Rect crop =
        stored_rect(options.fast->crop, stored.orientation, stored.width, stored.height);
    const Rect held = formats::decode_jpeg_fast(bytes, {crop, scale}, out.image);
    // The upright origin is the corner of the held pixels nearest to the upright image's corner.
    const Point a = upright_point({double(held.left) * scale, double(held.top) * scale},
                                  stored.orientation, stored.width, stored.height);
    const Point b = upright_point(
        {double(held.left + held.width) * scale, double(held.top + held.height) * scale},
        stored.orientation, stored.width, stored.height);
    out.scale = scale;
    out.origin_x = std::min(a.x, b.x) / scale;
    out.origin_y = std::min(a.y, b.y) / scale;
  } else if (kind == ImageKind::jpeg) {
    formats::decode_jpeg(bytes, stored_rect(part, stored.orientation, stored.width, stored.height),
                         out.image);
  } else if (kind == ImageKind::png) {
    samples = formats::decode_png(bytes, options.rules.png_bits, out.image);
  } else if (kind == ImageKind::webp) {
    samples = formats::decode_webp(bytes, out.image);
  } else if (kind == ImageKind::pnm) {
    samples = formats::decode_pnm(bytes, options.rules.png_bits, out.image);
  } else {
    samples = formats::decode_bmp(bytes, out.image);
  }
  out.largest_sample = samples.largest;
  out.has_alpha = samples.alpha;
  make_upright(out.image, stored.orientation, out.scratch);
  count_progress();
}

Image decode(std::span<const uint8_t> bytes, int64_t max_pixels) {
  Decoded decoded;
  decode(bytes, {.max_pixels = max_pixels}, decoded);
  return std::move(decoded.image);
}

CroppedView crop_view(const Decoded& decoded, Rect crop) {
  const Image& image = decoded.image;
  const double scale = decoded.scale;
  const Box box{crop.left / scale - decoded.origin_x, crop.top / scale - decoded.origin_y,
                (crop.left + crop.width) / scale - decoded.origin_x,
                (crop.top + crop.height) / scale - decoded.origin_y};
  const int x0 = std::clamp(static_cast<int>(std::floor(box.x0)), 0, image.width - 1);
  const int y0 = std::clamp(static_cast<int>(std::floor(box.y0)), 0, image.height - 1);
  const int x1 = std::clamp(static_cast<int>(std::ceil(box.x1)), x0 + 1, image.width);
  const int y1 = std::clamp(static_cast<int>(std::ceil(box.y1)), y0 + 1, image.height);
  const ImageView view(image, {x0, y0, x1 - x0, y1 - y0});
  return {view,
          {std::max(0.0, box.x0 - x0), std::max(0.0, box.y0 - y0),
           std::min<double>(view.width, box.x1 - x0), std::min<double>(view.height, box.y1 - y0)}};
}

}  // namespace whisker
