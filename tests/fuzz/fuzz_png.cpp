// Any bytes as a PNG or BMP: pixels or one data error. A PNG is tried as it is, and once more with
// its checksums mended, or nothing behind them would ever be reached.
#include "core/error.h"
#include "data/decode.h"
#include "data/png_chunks.h"

#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace {

constexpr int64_t max_pixels = 1 << 20;

void decode_once(std::span<const uint8_t> bytes) {
  try {
    const whisker::PictureHeader header = whisker::read_header(bytes, max_pixels);
    const whisker::Picture picture = whisker::decode(bytes, max_pixels);
    if (picture.width != header.width || picture.height != header.height) std::abort();
  } catch (const whisker::Error& error) {
    if (error.kind() != whisker::ErrorKind::data) std::abort();
  }
}

// Cuts chunk lengths to what is there and writes the CRC that each chunk should have.
std::vector<uint8_t> mended(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> file(bytes.begin(), bytes.end());
  const auto put_u32 = [&](size_t at, size_t value) {
    for (size_t i = 0; i < 4; ++i) file[at + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
  };
  for (size_t at = 8; at + 12 <= file.size();) {
    const size_t room = file.size() - at - 12;
    size_t length = static_cast<size_t>(file[at]) << 24 | static_cast<size_t>(file[at + 1]) << 16 |
                    static_cast<size_t>(file[at + 2]) << 8 | file[at + 3];
    if (length > room) {
      length = room;
      put_u32(at, length);
    }
    put_u32(at + 8 + length, whisker::formats::crc32(std::span(file).subspan(at + 4, 4 + length)));
    at += 12 + length;
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::span bytes(data, size);
  decode_once(bytes);
  if (data[0] == 0x89) decode_once(mended(bytes));
  return 0;
}
