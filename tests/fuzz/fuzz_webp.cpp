// Any bytes as a WebP: pixels or one data error. Mutants mostly have lengths that fit what is
// there, or little behind the container would ever be reached.
#include "core/error.h"
#include "data/codec/decode.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

void put_u32(std::span<uint8_t> file, size_t at, size_t value) {
  for (size_t i = 0; i < 4; ++i) file[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

// The file's length, and chunk lengths cut to what is there.
void repair(std::span<uint8_t> file) {
  put_u32(file, 4, file.size() - 8);
  for (size_t at = 12; at + 8 <= file.size();) {
    const size_t available = file.size() - at - 8;
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length |= static_cast<size_t>(file[at + 4 + i]) << (8 * i);
    if (length > available) put_u32(file, at + 4, available);
    at += 8 + std::min(length, available) + length % 2;
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size >= 12 && seed % 4 != 0) repair({data, size});
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t max_pixels = 1 << 20;
  const std::span bytes(data, size);
  if (size < 4 || data[0] != 'R') return 0;
  try {
    const whisker::ImageHeader header = whisker::read_header(bytes, max_pixels);
    const whisker::Image image = whisker::decode(bytes, max_pixels);
    if (image.width != header.width || image.height != header.height) std::abort();
  } catch (const whisker::Error& error) {
    if (error.kind() != whisker::ErrorKind::data) std::abort();
  }
  return 0;
}
