// Any bytes as a PBM, PGM or PPM: pixels or one data error.
#include "core/error.h"
#include "data/codec/decode.h"

#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t max_pixels = 1 << 20;
  const std::span bytes(data, size);
  if (size < 4 || data[0] != 'P') return 0;
  try {
    const whisker::ImageHeader header = whisker::read_header(bytes, max_pixels);
    const whisker::Image image = whisker::decode(bytes, max_pixels);
    if (image.width != header.width || image.height != header.height) std::abort();
  } catch (const whisker::Error& error) {
    if (error.kind() != whisker::ErrorKind::data) std::abort();
  }
  return 0;
}
