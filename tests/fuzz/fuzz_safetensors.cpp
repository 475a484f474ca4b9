// Any bytes as a weights file give a checked file or one checkpoint error.
#include "core/io/safetensors.h"

#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace whisker;
  try {
    const SafetensorsFile file =
        SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
    uint64_t total = 0, sum = 0;
    for (const SafetensorsTensor& tensor : file.tensors()) {
      total += tensor.bytes.size();
      for (const std::byte byte : tensor.bytes) sum += std::to_integer<uint64_t>(byte);
      if (file.find(tensor.name) != &tensor) std::abort();
    }
    if (total > size || sum > size * 255) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) std::abort();
  }
  return 0;
}
