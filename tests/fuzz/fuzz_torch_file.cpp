// Any bytes as a file of torch.save give tensors within bounds or one checkpoint error.
#include "core/io/torch_file.h"

#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace whisker;
  try {
    const SafetensorsFile file = parse_torch_file(std::as_bytes(std::span(data, size)), "fuzz");
    for (const SafetensorsTensor& tensor : file.tensors()) {
      uint64_t elements = 1, sum = 0;
      for (const uint64_t extent : tensor.shape) elements *= extent;
      for (const std::byte byte : tensor.bytes) sum += std::to_integer<uint64_t>(byte);
      const bool whole = elements * size_of(tensor.dtype) == tensor.bytes.size();
      if (!whole || sum > tensor.bytes.size() * 255 || file.find(tensor.name) != &tensor) {
        std::abort();
      }
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) std::abort();
  }
  return 0;
}
