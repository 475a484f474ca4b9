// Any bytes as a PNG or BMP: pixels or one data error, the same whatever failed before. PNGs are
// mutated with their checksums repaired, mostly in their zlib streams, or nothing behind the
// checksums would ever be reached.
#include "core/error.h"
#include "core/io/crc32.h"
#include "data/codec/decode.h"
#include "data/codec/png_chunks.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr int64_t max_pixels = 1 << 20;
constexpr size_t overhead = 12;  // a chunk's length, type and CRC

void put_u32(Bytes& file, size_t at, size_t value) {
  for (size_t i = 0; i < 4; ++i) file[at + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

// Cuts chunk lengths to what is there and writes the CRC that each chunk should have.
void repair(Bytes& file) {
  for (size_t at = 8; at + overhead <= file.size();) {
    const size_t available = file.size() - at - overhead;
    size_t length = static_cast<size_t>(file[at]) << 24 | static_cast<size_t>(file[at + 1]) << 16 |
                    static_cast<size_t>(file[at + 2]) << 8 | file[at + 3];
    if (length > available) {
      length = available;
      put_u32(file, at, length);
    }
    put_u32(file, at + 8 + length,
            whisker::crc32(std::as_bytes(std::span(file)).subspan(at + 4, 4 + length)));
    at += overhead + length;
  }
}

// One of the parts of the zlib stream; empty where there is none.
std::span<const uint8_t> zlib_part(std::span<const uint8_t> file, size_t number) {
  try {
    const auto parts = whisker::formats::read_png_chunks(file).deflate;
    return parts[number % parts.size()];
  } catch (const whisker::Error&) {
    return {};
  }
}

// Why the file is refused; "" when it is not.
std::string refusal(std::span<const uint8_t> bytes) {
  try {
    const whisker::ImageHeader header = whisker::read_header(bytes, max_pixels);
    const whisker::Image image = whisker::decode(bytes, max_pixels);
    if (image.width != header.width || image.height != header.height) std::abort();
    return {};
  } catch (const whisker::Error& error) {
    if (error.kind() != whisker::ErrorKind::data) std::abort();
    return error.what();
  }
}

// A PNG of one gray pixel whose zlib stream is `data`.
Bytes pixel(std::span<const uint8_t> data) {
  Bytes file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  const auto append = [&](std::string_view type, std::span<const uint8_t> body) {
    file.insert(file.end(), {0, 0, 0, static_cast<uint8_t>(body.size())});
    file.insert(file.end(), type.begin(), type.end());
    file.insert(file.end(), body.begin(), body.end());
    file.insert(file.end(), 4, 0);
  };
  append("IHDR", Bytes{0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0});
  append("IDAT", data);
  append("IEND", {});
  repair(file);
  return file;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  const bool png = size > 0 && data[0] == 0x89;
  if (!png || seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::span<const uint8_t> whole(data, size);
  const auto part = seed % 4 == 1 ? whole.first(0) : zlib_part(whole, seed / 4);
  Bytes file;
  if (part.empty()) {
    size = LLVMFuzzerMutate(data, size, max_size);
    file.assign(data, data + size);
  } else {
    Bytes body(part.begin(), part.end());
    body.resize(part.size() + (max_size - size));
    body.resize(LLVMFuzzerMutate(body.data(), part.size(), body.size()));
    const auto begin = static_cast<size_t>(part.data() - whole.data());
    file.assign(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(begin));
    put_u32(file, begin - 8, body.size());
    file.insert(file.end(), body.begin(), body.end());
    const auto rest = whole.subspan(begin + part.size());
    file.insert(file.end(), rest.begin(), rest.end());
  }
  repair(file);
  std::ranges::copy(file, data);
  return file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  static const Bytes no_zlib = pixel(Bytes{0xFF, 0xFF, 0xFF}),
                     no_codes = pixel(Bytes{0x78, 1, 5, 0});
  const std::string other = refusal(no_zlib), first = refusal({data, size});
  if (first.empty()) return 0;
  if (refusal(no_codes) == other || refusal({data, size}) != first) std::abort();
  return 0;
}
