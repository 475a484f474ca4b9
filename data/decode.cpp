#include "data/decode.h"

#include "core/error.h"
#include "core/io/text.h"
#include "data/decode_formats.h"
#include "data/exif.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

namespace whisker {
namespace formats {

void check_extents(int64_t width, int64_t height, int64_t max_pixels) {
  constexpr int64_t max_side = 65535;
  if (width <= 0 || height <= 0) {
    fail(ErrorKind::data, "picture without pixels: {}x{}", width, height);
  }
  if (width > max_side || height > max_side) {
    fail(ErrorKind::data, "picture too large: {}x{}, a side may have at most {} pixels", width,
         height, max_side);
  }
  if (width * height > max_pixels) {
    fail(ErrorKind::data, "picture too large: {}x{} is over data.max_pixels = {}", width, height,
         max_pixels);
  }
}

}  // namespace formats

namespace {

using formats::Bytes;

struct Signature {
  size_t at;
  std::string_view bytes;
  const char* name;
};

using std::string_view_literals::operator""sv;

// Formats that are not read, named so that the error says what the file is.
constexpr std::array foreign_formats = {
    Signature{0, "GIF8"sv, "a GIF picture"},
    Signature{8, "WEBP"sv, "a WebP picture"},
    Signature{0, "II*\0"sv, "a TIFF picture"},
    Signature{0, "MM\0*"sv, "a TIFF picture"},
    Signature{4, "ftypavif"sv, "an AVIF picture"},
    Signature{4, "ftypavis"sv, "an AVIF picture"},
    Signature{4, "ftyphei"sv, "a HEIC picture"},
    Signature{4, "ftyphev"sv, "a HEIC picture"},
    Signature{4, "ftypmif1"sv, "a HEIF picture"},
    Signature{4, "ftypmsf1"sv, "a HEIF picture"},
    Signature{4, "ftyp"sv, "an MP4 or QuickTime video"},
    Signature{4, "jP  \r\n"sv, "a JPEG 2000 picture"},
    Signature{0, "\xFF\x4F\xFF\x51"sv, "a JPEG 2000 picture"},
    Signature{0, "\xFF\x0A"sv, "a JPEG XL picture"},
    Signature{4, "JXL "sv, "a JPEG XL picture"},
    Signature{0, "8BPS"sv, "a Photoshop document"},
    Signature{0, "qoif"sv, "a QOI picture"},
    Signature{0, "DDS "sv, "a DDS texture"},
    Signature{0, "\0\0\1\0"sv, "a Windows icon"},
    Signature{0, "%PDF"sv, "a PDF document"},
    Signature{0, "PK\3\4"sv, "a ZIP archive"},
    Signature{0, "\x1F\x8B"sv, "a gzip file"},
    Signature{0, "version https://git-lfs"sv,
              "a git-lfs pointer, not the picture itself (run 'git lfs pull')"},
    Signature{0, "<!DOCTYPE"sv, "an HTML page (a failed download?)"},
    Signature{0, "<!doctype"sv, "an HTML page (a failed download?)"},
    Signature{0, "<html"sv, "an HTML page (a failed download?)"},
    Signature{0, "<HTML"sv, "an HTML page (a failed download?)"},
    Signature{0, "<svg"sv, "an SVG drawing"},
    Signature{0, "<?xml"sv, "an XML file"},
};

bool has(Bytes bytes, size_t at, std::string_view expected) {
  return bytes.size() >= at + expected.size() &&
         std::memcmp(bytes.data() + at, expected.data(), expected.size()) == 0;
}

[[noreturn]] void fail_unknown(Bytes bytes) {
  if (bytes.empty()) fail(ErrorKind::data, "empty file");
  for (const Signature& format : foreign_formats) {
    if (has(bytes, format.at, format.bytes)) {
      fail(ErrorKind::data, "{}; JPEG, PNG and BMP are read", format.name);
    }
  }
  const Bytes head = bytes.first(std::min<size_t>(bytes.size(), 512));
  const bool zeros = std::all_of(head.begin(), head.end(), [](uint8_t byte) { return byte == 0; });
  if (zeros) {
    fail(ErrorKind::data, "no picture: the file starts with zeros (a lost or sparse copy?)");
  }
  const bool text = std::all_of(head.begin(), head.end(), [](uint8_t byte) {
    return (byte >= 32 && byte < 127) || byte == '\n' || byte == '\r' || byte == '\t';
  });
  fail(ErrorKind::data, "{}; JPEG, PNG and BMP are read",
       text ? "a text file, no picture" : "no known picture format");
}

PictureKind kind_of(Bytes bytes) {
  if (bytes.size() > max_picture_bytes) {
    fail(ErrorKind::data, "file too large: {}, at most {} are read as a picture",
         human_bytes(bytes.size()), human_bytes(max_picture_bytes));
  }
  if (has(bytes, 0, "\xFF\xD8"sv)) return PictureKind::jpeg;
  if (has(bytes, 0, "\x89PNG\r\n\x1A\n"sv)) return PictureKind::png;
  if (has(bytes, 0, "BM"sv) && bytes.size() >= 18) return PictureKind::bmp;
  fail_unknown(bytes);
}

formats::StoredHeader stored_header(PictureKind kind, Bytes bytes, int64_t max_pixels) {
  const auto header = kind == PictureKind::jpeg  ? formats::jpeg_header(bytes)
                      : kind == PictureKind::png ? formats::png_header(bytes)
                                                 : formats::bmp_header(bytes);
  formats::check_extents(header.width, header.height, max_pixels);
  return header;
}

PictureHeader upright_header(PictureKind kind, const formats::StoredHeader& stored) {
  PictureHeader header{kind, stored.height, stored.width, stored.orientation};
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

void check_crop(const Rect& crop, const PictureHeader& header) {
  if (crop.left < 0 || crop.top < 0 || crop.width < 1 || crop.height < 1 ||
      crop.width > header.width - crop.left || crop.height > header.height - crop.top) {
    fail(ErrorKind::usage, "decode: crop {}x{} at ({},{}) is not inside the {}x{} picture",
         crop.width, crop.height, crop.left, crop.top, header.width, header.height);
  }
}

}  // namespace

PictureHeader read_header(std::span<const uint8_t> bytes, int64_t max_pixels) {
  const PictureKind kind = kind_of(bytes);
  return upright_header(kind, stored_header(kind, bytes, max_pixels));
}

void decode(std::span<const uint8_t> bytes, const DecodeOptions& options, Decoded& out) {
  const PictureKind kind = kind_of(bytes);
  const auto stored = stored_header(kind, bytes, options.max_pixels);
  const PictureHeader header = upright_header(kind, stored);
  out.full_height = header.height;
  out.full_width = header.width;
  out.scale = 1;
  out.origin_x = 0;
  out.origin_y = 0;
  if (options.fast) check_crop(options.fast->crop, header);

  if (kind == PictureKind::jpeg && options.fast) {
    const int scale = scale_for(*options.fast);
    const Rect crop =
        stored_rect(options.fast->crop, stored.orientation, stored.width, stored.height);
    const Rect held = formats::decode_jpeg_part(bytes, {crop, scale}, out.picture);
    // The upright origin is the corner of the held pixels nearest to the upright picture's corner.
    const Point a = upright_point({double(held.left) * scale, double(held.top) * scale},
                                  stored.orientation, stored.width, stored.height);
    const Point b = upright_point(
        {double(held.left + held.width) * scale, double(held.top + held.height) * scale},
        stored.orientation, stored.width, stored.height);
    out.scale = scale;
    out.origin_x = std::min(a.x, b.x) / scale;
    out.origin_y = std::min(a.y, b.y) / scale;
  } else if (kind == PictureKind::jpeg) {
    formats::decode_jpeg(bytes, out.picture);
  } else if (kind == PictureKind::png) {
    formats::decode_png(bytes, out.picture);
  } else {
    formats::decode_bmp(bytes, out.picture);
  }
  make_upright(out.picture, stored.orientation, out.scratch);
}

Picture decode(std::span<const uint8_t> bytes, int64_t max_pixels) {
  Decoded decoded;
  decode(bytes, {.max_pixels = max_pixels}, decoded);
  return std::move(decoded.picture);
}

CroppedView crop_view(const Decoded& decoded, Rect crop) {
  const Picture& picture = decoded.picture;
  const double scale = decoded.scale;
  const Box box{crop.left / scale - decoded.origin_x, crop.top / scale - decoded.origin_y,
                (crop.left + crop.width) / scale - decoded.origin_x,
                (crop.top + crop.height) / scale - decoded.origin_y};
  const int x0 = std::clamp(static_cast<int>(std::floor(box.x0)), 0, picture.width - 1);
  const int y0 = std::clamp(static_cast<int>(std::floor(box.y0)), 0, picture.height - 1);
  const int x1 = std::clamp(static_cast<int>(std::ceil(box.x1)), x0 + 1, picture.width);
  const int y1 = std::clamp(static_cast<int>(std::ceil(box.y1)), y0 + 1, picture.height);
  const PictureView view(picture, {x0, y0, x1 - x0, y1 - y0});
  return {view,
          {std::max(0.0, box.x0 - x0), std::max(0.0, box.y0 - y0),
           std::min<double>(view.width, box.x1 - x0), std::min<double>(view.height, box.y1 - y0)}};
}

}  // namespace whisker
