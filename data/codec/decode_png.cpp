// PNG by stb_image 2.27, guarded: it sees only a stream rebuilt from chunks whose CRCs were right,
// with a full palette, and allocates from a budget. See PngChunks and Note [Image rules].
#include "core/error.h"
#include "data/codec/decode_formats.h"
#include "data/codec/exif.h"
#include "data/codec/png_chunks.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace whisker::formats {
namespace {

// Live bytes of this thread's decode; each block starts with its size.
class AllocationBudget {
 public:
  void open(size_t bytes) {
    limit_ = bytes;
    live_ = 0;
    exceeded_ = false;
    system_has_none_ = false;
  }
  bool exceeded() const { return exceeded_; }
  bool system_has_none() const { return system_has_none_; }

  void* allocate(size_t bytes) {
    if (bytes > limit_ - live_) {
      exceeded_ = true;
      return nullptr;
    }
    auto* block = static_cast<std::byte*>(std::malloc(bytes + prefix));
    if (block == nullptr) {
      system_has_none_ = true;
      return nullptr;
    }
    std::memcpy(block, &bytes, sizeof bytes);
    live_ += bytes;
    return block + prefix;
  }
  void* reallocate(void* old, size_t bytes) {
    void* grown = allocate(bytes);
    if (old == nullptr || grown == nullptr) return grown;
    std::memcpy(grown, old, std::min(size_of(old), bytes));
    release(old);
    return grown;
  }
  void release(void* block) {
    if (block == nullptr) return;
    live_ -= size_of(block);
    std::free(static_cast<std::byte*>(block) - prefix);
  }

 private:
  static constexpr size_t prefix = alignof(std::max_align_t);
  static size_t size_of(void* block) {
    size_t bytes = 0;
    std::memcpy(&bytes, static_cast<std::byte*>(block) - prefix, sizeof bytes);
    return bytes;
  }

  size_t limit_ = 0;
  size_t live_ = 0;
  bool exceeded_ = false;
  bool system_has_none_ = false;
};

thread_local AllocationBudget stb_budget;

}  // namespace
}  // namespace whisker::formats

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_MAX_DIMENSIONS 65535
#define STBI_MALLOC(bytes) whisker::formats::stb_budget.allocate(bytes)
#define STBI_REALLOC(block, bytes) whisker::formats::stb_budget.reallocate(block, bytes)
#define STBI_FREE(block) whisker::formats::stb_budget.release(block)
#define STBI_ASSERT(condition) static_cast<void>(condition)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace whisker::formats {
namespace {

void append_u32(std::vector<uint8_t>& bytes, size_t value) {
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<uint8_t>(value >> shift));
}

void open_chunk(std::vector<uint8_t>& bytes, size_t length, const char* type) {
  append_u32(bytes, length);
  bytes.insert(bytes.end(), type, type + 4);
}

// stb_image skips over the CRC without looking.
void close_chunk(std::vector<uint8_t>& bytes) {
  append_u32(bytes, 0);
}

// Only what decides pixels: IHDR, PLTE padded to 256 entries (stb_image reads past a short one),
// tRNS and one IDAT.
std::vector<uint8_t> rebuild(const PngChunks& png) {
  size_t data_bytes = 0;
  for (const auto& part : png.deflate) data_bytes += part.size();
  std::vector<uint8_t> bytes;
  bytes.reserve(data_bytes + 2048);
  constexpr std::array<uint8_t, 8> signature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  bytes.insert(bytes.end(), signature.begin(), signature.end());
  open_chunk(bytes, 13, "IHDR");
  append_u32(bytes, static_cast<size_t>(png.width));
  append_u32(bytes, static_cast<size_t>(png.height));
  bytes.push_back(static_cast<uint8_t>(png.bit_depth));
  bytes.push_back(static_cast<uint8_t>(png.color_type));
  bytes.push_back(0);
  bytes.push_back(0);
  bytes.push_back(png.interlaced ? 1 : 0);
  close_chunk(bytes);
  if (!png.palette.empty()) {
    open_chunk(bytes, 768, "PLTE");
    bytes.insert(bytes.end(), png.palette.begin(), png.palette.end());
    bytes.insert(bytes.end(), 768 - png.palette.size(), 0);
    close_chunk(bytes);
  }
  if (!png.transparency.empty()) {
    open_chunk(bytes, png.transparency.size(), "tRNS");
    bytes.insert(bytes.end(), png.transparency.begin(), png.transparency.end());
    close_chunk(bytes);
  }
  open_chunk(bytes, data_bytes, "IDAT");
  for (const auto& part : png.deflate) bytes.insert(bytes.end(), part.begin(), part.end());
  close_chunk(bytes);
  open_chunk(bytes, 0, "IEND");
  close_chunk(bytes);
  return bytes;
}

// The text of a chunk, at most its first MiB; "" where it cannot be unpacked.
std::string text_of(const PngText& text) {
  constexpr size_t most = size_t{1} << 20;
  if (!text.compressed) {
    const auto shown = text.bytes.first(std::min(text.bytes.size(), most));
    return {shown.begin(), shown.end()};
  }
  stb_budget.open(size_t{1} << 20);
  std::string unpacked(most, '\0');
  const int bytes = stbi_zlib_decode_buffer(
      unpacked.data(), static_cast<int>(most), reinterpret_cast<const char*>(text.bytes.data()),
      static_cast<int>(std::min<size_t>(text.bytes.size(), std::numeric_limits<int>::max())));
  unpacked.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
  return unpacked;
}

// ImageMagick's text: an empty line, a name, a length, then lines of hexadecimal digits.
std::vector<uint8_t> profile_bytes(std::string_view text) {
  for (int line = 0; line < 3; ++line)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  std::vector<uint8_t> bytes;
  int high = -1;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) continue;
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<uint8_t>(16 * high + digit));
      high = -1;
    }
  }
  return bytes;
}

int orientation_of(const PngChunks& png, int rules) {
  if (rules == 1) return exif_orientation({.exif = png.exif}, rules);
  OrientationTags tags{.exif = png.exif};
  std::vector<uint8_t> profile;
  if (png.exif.empty() && !png.exif_profile.bytes.empty()) {
    profile = profile_bytes(text_of(png.exif_profile));
    tags.exif = profile;
  }
  const std::string xmp = text_of(png.xmp);
  tags.xmp = Bytes(reinterpret_cast<const uint8_t*>(xmp.data()), xmp.size());
  return exif_orientation(tags, rules);
}

struct BudgetRelease {
  void operator()(uint8_t* pixels) const { stb_budget.release(pixels); }
};

// `channels` samples per pixel (1 gray, 2 gray + alpha, 3 RGB, 4 RGBA) to RGB over white.
void to_rgb(const uint8_t* from, int channels, Image& out) {
  const bool gray = channels <= 2;
  const bool alpha = channels == 2 || channels == 4;
  uint8_t* rgb = out.rgb.data();
  const uint8_t* end = rgb + out.rgb.size();
  if (channels == 3) {
    std::memcpy(rgb, from, out.rgb.size());
    return;
  }
  for (; rgb != end; rgb += 3, from += channels) {
    const uint32_t opacity = alpha ? from[channels - 1] : 255;
    for (int c = 0; c < 3; ++c) rgb[c] = over_white(from[gray ? 0 : c], opacity);
  }
}

}  // namespace

StoredHeader png_header(Bytes bytes, int rules) {
  const PngChunks png = read_png_chunks(bytes);
  check_extents(png.width, png.height, std::numeric_limits<int64_t>::max());
  return {static_cast<int>(png.height), static_cast<int>(png.width), orientation_of(png, rules)};
}

namespace {

// stb_image's pixels as it gives them: 8 or, where `deep`, 16 bits per sample.
struct Unpacked {
  std::unique_ptr<uint8_t, BudgetRelease> samples = nullptr;
  int width = 0, height = 0, channels = 0;

  const uint16_t* deep() const { return reinterpret_cast<const uint16_t*>(samples.get()); }
};

Unpacked unpack(Bytes bytes, const PngChunks& png, bool deep) {
  const std::vector<uint8_t> stream = rebuild(png);
  const auto pixels = static_cast<size_t>(png.width) * static_cast<size_t>(png.height);
  stb_budget.open(32 * pixels + (size_t{1} << 20) + 2 * bytes.size());
  stbi__g_failure_reason = nullptr;  // some failures give none, and would show the last one's
  Unpacked image;
  const auto size = static_cast<int>(stream.size());
  image.samples.reset(
      deep ? reinterpret_cast<uint8_t*>(stbi_load_16_from_memory(stream.data(), size, &image.width,
                                                                 &image.height, &image.channels, 0))
           : stbi_load_from_memory(stream.data(), size, &image.width, &image.height,
                                   &image.channels, 0));
  if (image.samples) return image;
  if (stb_budget.system_has_none()) throw std::bad_alloc();
  if (stb_budget.exceeded()) {
    fail(ErrorKind::data, "damaged PNG: its data unpack to more than its {}x{} pixels", png.width,
         png.height);
  }
  const char* const reason = stbi_failure_reason();
  fail(ErrorKind::data, "damaged PNG: {}", reason ? reason : "its data cannot be unpacked");
}

}  // namespace

Samples decode_png(Bytes bytes, int png_bits, Image& out) {
  const PngChunks png = read_png_chunks(bytes);
  const bool deep = png.bit_depth == 16;
  const Unpacked image = unpack(bytes, png, deep);
  out.reshape(image.height, image.width);
  if (!deep) {
    to_rgb(image.samples.get(), image.channels, out);
    return {.alpha = image.channels % 2 == 0};
  }
  const auto channels = static_cast<size_t>(image.channels);
  std::vector<uint8_t> narrow(out.rgb.size() / 3 * channels);
  uint32_t largest = 0;
  for (size_t i = 0; i < narrow.size(); ++i) {
    const uint32_t sample = image.deep()[i];
    const bool alpha = channels % 2 == 0 && i % channels == channels - 1;
    if (!alpha) largest = std::max(largest, sample);
    narrow[i] = static_cast<uint8_t>(std::min(sample >> (alpha ? 8 : png_bits - 8), uint32_t{255}));
  }
  to_rgb(narrow.data(), image.channels, out);
  return {.largest = largest, .alpha = channels % 2 == 0};
}

}  // namespace whisker::formats
