// JPEG by libjpeg-turbo under an error manager of our own: its errors, and those of its warnings
// that mean lost image, become one ErrorKind::data error. See Note [Image rules] in decode.h.
#include "core/error.h"
#include "data/codec/decode.h"
#include "data/codec/decode_formats.h"
#include "data/codec/exif.h"

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

// jerror.h lists the codes that jpeglib.h was configured with, so it comes second.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

namespace whisker::formats {
namespace {

constexpr uint8_t marker_eoi = 0xD9;
constexpr uint8_t marker_sos = 0xDA;
constexpr uint8_t marker_app1 = 0xE1;

struct JpegMarkers {
  StoredHeader header;
  OrientationTags tags;
  size_t scan_at = 0;  // where the first scan's segment starts
};

// Walks the segments up to the first scan: extents, the first EXIF block and the last XMP packet.
JpegMarkers walk_markers(Bytes bytes) {
  JpegMarkers found;
  constexpr std::string_view exif_prefix("Exif\0", 5);
  constexpr std::string_view xmp_prefix("http://ns.adobe.com/xap/1.0/\0", 29);
  bool seen_exif = false;
  size_t at = 2;
  for (;;) {
    while (at < bytes.size() && bytes[at] != 0xFF) ++at;  // libjpeg, too, looks for the next marker
    while (at < bytes.size() && bytes[at] == 0xFF) ++at;
    if (at >= bytes.size()) {
      fail(ErrorKind::data, "truncated JPEG: the file ends before the image");
    }
    const uint8_t marker = bytes[at++];
    if (marker == marker_eoi) fail(ErrorKind::data, "damaged JPEG: no image between its markers");
    const bool bare = marker == 0x00 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    if (bare) continue;
    if (bytes.size() - at < 2) fail(ErrorKind::data, "truncated JPEG: the file ends in its header");
    const size_t length = static_cast<size_t>(bytes[at]) << 8 | bytes[at + 1];
    if (length < 2) {
      fail(ErrorKind::data, "damaged JPEG: segment 0x{:02X} of {} bytes", marker, length);
    }
    if (marker == marker_sos) {
      found.scan_at = at;
      if (found.header.width == 0) fail(ErrorKind::data, "damaged JPEG: a scan before its frame");
      return found;
    }
    if (length > bytes.size() - at) {
      fail(ErrorKind::data, "truncated JPEG: the file ends in its header");
    }
    const Bytes body = bytes.subspan(at + 2, length - 2);
    const bool frame =
        marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame) {
      if (marker > 0xC2 && marker != 0xC9 && marker != 0xCA) {
        fail(ErrorKind::data, "unsupported JPEG (lossless or hierarchical, frame 0x{:02X})",
             marker);
      }
      if (body.size() < 6) fail(ErrorKind::data, "damaged JPEG: frame segment too short");
      if (body[0] != 8) {
        fail(ErrorKind::data, "JPEG with {} bits per sample; 8 are supported", int{body[0]});
      }
      found.header.height = body[1] << 8 | body[2];
      found.header.width = body[3] << 8 | body[4];
      if (found.header.height == 0 || found.header.width == 0) {
        fail(ErrorKind::data, "damaged JPEG: {}x{} pixels", found.header.width,
             found.header.height);
      }
    }
    const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
    if (marker == marker_app1 && !seen_exif && body.size() > exif_prefix.size() + 1 &&
        text.starts_with(exif_prefix)) {
      seen_exif = true;
      found.tags.exif = body.subspan(exif_prefix.size() + 1);  // a second zero, or padding
    } else if (marker == marker_app1 && text.starts_with(xmp_prefix)) {
      found.tags.xmp = body.subspan(xmp_prefix.size());
    }
    at += length;
  }
}

// What a warning of libjpeg means for us; the rest (odd tables, extra bytes) loses no pixels.
bool loses_image(int message_code) {
  switch (message_code) {
    case JWRN_HIT_MARKER:
    case JWRN_JPEG_EOF:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      return true;
    default:
      return false;
  }
}

// Frees libjpeg's memory also when the reader below fails in its constructor.
struct DecompressHandle {
  jpeg_decompress_struct cinfo{};

  DecompressHandle() = default;
  DecompressHandle(const DecompressHandle&) = delete;
  DecompressHandle& operator=(const DecompressHandle&) = delete;
  ~DecompressHandle() { jpeg_destroy_decompress(&cinfo); }
};

// One decompression. libjpeg leaves by longjmp, so its calls run inside call(), whose body may own
// nothing that has a destructor.
class JpegReader {
 public:
  /// `strict`: every warning is an error.
  explicit JpegReader(Bytes bytes, bool strict = false) : strict_(strict) {
    cinfo_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr common) { leave(common); };
    errors_.emit_message = [](j_common_ptr common, int level) {
      if (level < 0 && (self(common).strict_ || loses_image(common->err->msg_code))) leave(common);
    };
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = [](j_common_ptr common) { check_scans(common); };
    cinfo_.client_data = this;
    jpeg_create_decompress(&cinfo_);
    cinfo_.progress = &progress_;
    call([&] {
      jpeg_mem_src(&cinfo_, bytes.data(), static_cast<unsigned long>(bytes.size()));
      jpeg_read_header(&cinfo_, TRUE);
    });
    choose_colors();
    // Coefficients take at most 8 bytes a pixel, with every component padded to whole MCUs of 32.
    const size_t padded = (cinfo_.image_width + size_t{32}) * (cinfo_.image_height + size_t{32});
    cinfo_.mem->max_memory_to_use = static_cast<long>(16 * padded + (size_t{16} << 20));
  }
  jpeg_decompress_struct& cinfo() { return cinfo_; }
  int image_width() const { return static_cast<int>(cinfo_.image_width); }
  int image_height() const { return static_cast<int>(cinfo_.image_height); }

  template <class Body>
  void call(Body&& body) {
    if (setjmp(jump_) != 0) fail_with_message();
    body();
  }

  // Starts decompression around `crop`, in full-resolution pixels. Returns the rectangle of the
  // scaled image that read_rows() then gives.
  Rect start(const Rect& crop, int scale) {
    if (crop.left + crop.width > image_width() || crop.top + crop.height > image_height()) {
      fail(ErrorKind::data, "damaged JPEG: its headers differ in their extents");
    }
    cinfo_.scale_num = 1;
    cinfo_.scale_denom = static_cast<unsigned>(scale);
    call([&] { jpeg_start_decompress(&cinfo_); });
    const int full_width = static_cast<int>(cinfo_.output_width);
    const int full_height = static_cast<int>(cinfo_.output_height);
    // Two pixels around the crop: chroma between two samples is interpolated from both.
    constexpr int margin = 2;
    const int x0 = std::max(crop.left / scale - margin, 0);
    const int y0 = std::max(crop.top / scale - margin, 0);
    const int x1 = std::min((crop.left + crop.width - 1) / scale + 1 + margin, full_width);
    const int y1 = std::min((crop.top + crop.height - 1) / scale + 1 + margin, full_height);
    JDIMENSION left = static_cast<JDIMENSION>(x0);
    JDIMENSION width = static_cast<JDIMENSION>(x1 - x0);
    call([&] {
      if (x1 - x0 < full_width) jpeg_crop_scanline(&cinfo_, &left, &width);
      if (y0 > 0) jpeg_skip_scanlines(&cinfo_, static_cast<JDIMENSION>(y0));
    });
    return {static_cast<int>(left), y0, static_cast<int>(cinfo_.output_width), y1 - y0};
  }

  // Reads the next `rows` rows, `stride` bytes apart.
  void read_rows(int rows, uint8_t* to, ptrdiff_t stride) {
    if (cinfo_.out_color_space != JCS_CMYK) {
      call([&] {
        for (int y = 0; y < rows;) {
          JSAMPROW targets[16];
          const int count = std::min(rows - y, 16);
          for (int i = 0; i < count; ++i) targets[i] = to + (y + i) * stride;
          y += static_cast<int>(
              jpeg_read_scanlines(&cinfo_, targets, static_cast<JDIMENSION>(count)));
        }
      });
      return;
    }
    const int width = static_cast<int>(cinfo_.output_width);
    cmyk_row_.resize(static_cast<size_t>(width) * 4);
    for (int y = 0; y < rows; ++y) {
      call([&] {
        JSAMPROW target = cmyk_row_.data();
        jpeg_read_scanlines(&cinfo_, &target, 1);
      });
      cmyk_to_rgb(to + y * stride, width);
    }
  }

 private:
  static JpegReader& self(j_common_ptr common) {
    return *static_cast<JpegReader*>(common->client_data);
  }
  [[noreturn]] static void leave(j_common_ptr common) { std::longjmp(self(common).jump_, 1); }
  // Every scan of a progressive file touches all coefficients: 100 KB can ask for minutes of work.
  static void check_scans(j_common_ptr common) {
    JpegReader& reader = self(common);
    const int64_t pixels = int64_t{reader.cinfo_.image_width} * reader.cinfo_.image_height;
    if (reader.cinfo_.input_scan_number * pixels <= max_scan_pixels) return;
    reader.too_many_scans_ = true;
    leave(common);
  }

  [[noreturn]] void fail_with_message() {
    if (too_many_scans_) {
      fail(ErrorKind::data,
           "JPEG with too many scans: {} over {}x{} pixels; scans x pixels may be {}",
           cinfo_.input_scan_number, cinfo_.image_width, cinfo_.image_height, max_scan_pixels);
    }
    if (errors_.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
    char text[JMSG_LENGTH_MAX];
    errors_.format_message(reinterpret_cast<j_common_ptr>(&cinfo_), text);
    const bool cut = errors_.msg_code == JWRN_JPEG_EOF || errors_.msg_code == JERR_INPUT_EOF;
    fail(ErrorKind::data, "{} JPEG: {}", cut ? "truncated" : "damaged", text);
  }

  void choose_colors() {
    switch (cinfo_.num_components) {
      case 1:
      case 3:
        cinfo_.out_color_space = JCS_RGB;
        break;
      case 4:
        cinfo_.out_color_space = JCS_CMYK;
        break;
      default:
        fail(ErrorKind::data, "JPEG with {} color components; 1, 3 and 4 are supported",
             cinfo_.num_components);
    }
  }

  void cmyk_to_rgb(uint8_t* rgb, int width) const {
    const unsigned complement = cinfo_.saw_Adobe_marker ? 0 : 255;
    for (int x = 0; x < width; ++x) {
      const uint8_t* cmyk = cmyk_row_.data() + ptrdiff_t{4} * x;
      const unsigned white = cmyk[3] ^ complement;  // 255 - v == v ^ 255
      for (int c = 0; c < 3; ++c) {
        rgb[3 * x + c] = static_cast<uint8_t>(((cmyk[c] ^ complement) * white + 127) / 255);
      }
    }
  }

  static constexpr int64_t max_scan_pixels = 2'000'000'000;
  const bool strict_;
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  DecompressHandle handle_;
  jpeg_decompress_struct& cinfo_ = handle_.cinfo;
  std::jmp_buf jump_{};
  bool too_many_scans_ = false;
  std::vector<uint8_t> cmyk_row_;
};

}  // namespace

StoredHeader jpeg_header(Bytes bytes, int rules) {
  JpegMarkers found = walk_markers(bytes);
  found.header.orientation = exif_orientation(found.tags, rules);
  return found.header;
}

void decode_jpeg(Bytes bytes, const Rect& part, Image& out) {
  JpegReader reader(bytes);
  auto& cinfo = reader.cinfo();
  // A progressive file may lack its last scans: libjpeg then smooths, also across the part's edges.
  const Rect whole{0, 0, reader.image_width(), reader.image_height()};
  const Rect held = reader.start(cinfo.progressive_mode ? whole : part, 1);
  out.reshape(whole.height, whole.width);
  const ptrdiff_t stride = ptrdiff_t{3} * out.width;
  reader.read_rows(held.height, out.row(held.top) + ptrdiff_t{3} * held.left, stride);
  // Skipping to the end would leave the data behind the part unread, so the last row is read.
  const int below = out.height - (held.top + held.height);
  if (below > 1) {
    reader.call([&] { jpeg_skip_scanlines(&cinfo, static_cast<JDIMENSION>(below - 1)); });
  }
  if (below > 0) reader.read_rows(1, out.row(out.height - 1), stride);
  reader.call([&] { jpeg_finish_decompress(&cinfo); });
}

Rect decode_jpeg_fast(Bytes bytes, const JpegPart& part, Image& out) {
  // Rows below the crop are never read, so that a cut there must be found another way: entropy data
  // holds no end marker (0xFF is followed by 0), so a file without one after its first scan is cut.
  const size_t scan_at = walk_markers(bytes).scan_at;
  const uint8_t* end = bytes.data() + bytes.size();
  constexpr uint8_t end_marker[] = {0xFF, marker_eoi};
  const bool whole = std::equal(end_marker, end_marker + 2, end - 2) ||
                     std::find_end(bytes.data() + scan_at, end, end_marker, end_marker + 2) != end;
  if (!whole) fail(ErrorKind::data, "truncated JPEG: the file has no end marker");

  JpegReader reader(bytes);
  const Rect held = reader.start(part.crop, part.scale);
  out.reshape(held.height, held.width);
  reader.read_rows(held.height, out.rgb.data(), ptrdiff_t{3} * out.width);
  return held;
}

bool is_flawless_jpeg(Bytes bytes) {
  try {
    JpegReader reader(bytes, /*strict=*/true);
    check_extents(reader.image_width(), reader.image_height(), default_max_pixels);
    const Rect held = reader.start({0, 0, reader.image_width(), reader.image_height()}, 8);
    Image image;
    image.reshape(held.height, held.width);
    reader.read_rows(held.height, image.rgb.data(), ptrdiff_t{3} * image.width);
    reader.call([&] { jpeg_finish_decompress(&reader.cinfo()); });
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace whisker::formats
