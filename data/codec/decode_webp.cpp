// WebP by libwebp: lossy and lossless still images, with alpha over white. The container's chunks
// are walked here first, so that a cut file and an animation are told by name. See Note [Image
// rules].
#include "core/error.h"
#include "data/codec/decode_formats.h"
#include "data/codec/exif.h"
#include "data/codec/unsupported_formats.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <vector>

#include <webp/decode.h>

namespace whisker::formats {
namespace {

struct Webp {
  Bytes file;  // without bytes after its end
  WebPBitstreamFeatures features{};
  OrientationTags tags = {};
  std::vector<Bytes> lossless = {};  // its streams: pixels, or the alpha of lossy ones
};

// The chunks of the container (RFC 9649, section 2).
Webp read_webp(Bytes bytes) {
  constexpr size_t chunk_header = 8;  // type and length
  constexpr size_t file_header = 12;
  const size_t length = u32(bytes, 4);
  if (length > bytes.size() - chunk_header) {
    fail(ErrorKind::data, "truncated WebP: {} bytes of {}", bytes.size(), length + chunk_header);
  }
  Webp webp{.file = bytes.first(chunk_header + length)};
  for (size_t at = file_header; webp.file.size() >= at + chunk_header;) {
    const std::string_view type(reinterpret_cast<const char*>(bytes.data()) + at, 4);
    const size_t body_bytes = u32(bytes, at + 4);
    at += chunk_header;
    if (body_bytes > webp.file.size() - at) {
      fail(ErrorKind::data, "truncated WebP: a chunk of {} bytes where {} are left", body_bytes,
           webp.file.size() - at);
    }
    const Bytes body = webp.file.subspan(at, body_bytes);
    at += body_bytes + body_bytes % 2;
    if (type == "ANIM" || type == "ANMF") {
      fail(ErrorKind::data, "an animated WebP image; {}", supported_formats);
    }
    if (type == "EXIF") {
      // Some writers put a JPEG's prefix before the block.
      constexpr std::string_view prefix("Exif\0\0", 6);
      const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
      webp.tags.exif = text.starts_with(prefix) ? body.subspan(prefix.size()) : body;
    }
    if (type == "XMP ") webp.tags.xmp = body;
    constexpr size_t lossless_header = 5;
    if (type == "VP8L" && body.size() > lossless_header) {
      webp.lossless.push_back(body.subspan(lossless_header));
    }
    if (type == "ALPH" && !body.empty() && (body[0] & 3) == 1) {
      webp.lossless.push_back(body.subspan(1));
    }
  }
  if (webp.lossless.size() > 1) {  // each takes time to look at
    fail(ErrorKind::data, "damaged WebP: more than one image or alpha channel in it");
  }
  const VP8StatusCode status = WebPGetFeatures(webp.file.data(), webp.file.size(), &webp.features);
  if (status != VP8_STATUS_OK) {
    fail(ErrorKind::data, "damaged WebP: its header cannot be read (libwebp's status {})",
         static_cast<int>(status));
  }
  return webp;
}

// libwebp's memory, which is that of the codes, and of the pixels at 4 bytes each.
void check_budget(const Webp& webp) {
  constexpr int64_t group_bytes = 21'000;  // at the most
  const int64_t pixels = int64_t{webp.features.width} * webp.features.height;
  const int64_t budget = 32 * pixels + (int64_t{64} << 20);
  for (const Bytes stream : webp.lossless) {
    const int64_t groups = webp_code_groups(stream, webp.features.width, webp.features.height);
    if (std::min(groups, int64_t{65536}) * group_bytes + 4 * pixels > budget) {
      fail(ErrorKind::data, "WebP with too many codes: up to {} groups of them for {}x{} pixels",
           groups, webp.features.width, webp.features.height);
    }
  }
}

}  // namespace

StoredHeader webp_header(Bytes bytes, int rules) {
  const Webp webp = read_webp(bytes);
  return {webp.features.height, webp.features.width, exif_orientation(webp.tags, rules)};
}

Samples decode_webp(Bytes bytes, Image& out) {
  const Webp webp = read_webp(bytes);
  check_budget(webp);
  out.reshape(webp.features.height, webp.features.width);
  const size_t channels = webp.features.has_alpha ? 4 : 3;
  std::vector<uint8_t> rgba;
  if (channels == 4) rgba.resize(out.rgb.size() / 3 * 4);
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) {
    fail(ErrorKind::internal, "libwebp is not of the version that was built against");
  }
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = channels == 4 ? rgba.data() : out.rgb.data();
  config.output.u.RGBA.stride = static_cast<int>(channels) * out.width;
  config.output.u.RGBA.size = channels == 4 ? rgba.size() : out.rgb.size();
  const VP8StatusCode status = WebPDecode(webp.file.data(), webp.file.size(), &config);
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != VP8_STATUS_OK) {
    fail(ErrorKind::data, "damaged WebP: {} (libwebp's status {})",
         status == VP8_STATUS_NOT_ENOUGH_DATA ? "its data end too early"
                                              : "its data cannot be decoded",
         static_cast<int>(status));
  }
  for (size_t i = 0; i < rgba.size() / 4; ++i) {
    for (size_t c = 0; c < 3; ++c)
      out.rgb[3 * i + c] = over_white(rgba[4 * i + c], rgba[4 * i + 3]);
  }
  return {.alpha = channels == 4};
}

}  // namespace whisker::formats
