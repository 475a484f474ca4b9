// Headers made of the format's own words and odd numbers, framed with the right
// length, so that the fuzzer reaches the layout checks; what is accepted must cover the bytes.
#include "core/io/safetensors.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace {

constexpr std::array<std::string_view, 48> words = {"{",
                                                    "}",
                                                    "[",
                                                    "]",
                                                    ",",
                                                    ":",
                                                    "\"dtype\":",
                                                    "\"shape\":[",
                                                    "\"a\":{",
                                                    "\"b\"",
                                                    "\"c\"",
                                                    "\"\"",
                                                    "\"F32\"",
                                                    "\"F64\"",
                                                    "\"F16\"",
                                                    "\"BF16\"",
                                                    "\"I64\"",
                                                    "\"I32\"",
                                                    "\"U8\"",
                                                    "\"BOOL\"",
                                                    "\"I8\"",
                                                    "0",
                                                    "1",
                                                    "2",
                                                    "3",
                                                    "4",
                                                    "8",
                                                    "16",
                                                    "-1",
                                                    "1.0",
                                                    "1e9",
                                                    "4294967296",
                                                    "18446744073709551615",
                                                    "18446744073709551616",
                                                    "null",
                                                    "true",
                                                    " ",
                                                    "\n",
                                                    "\\u0041",
                                                    "\"x\":",
                                                    "[[",
                                                    "]]",
                                                    "\"__metadata__\":{",
                                                    "\"format\":\"pt\"",
                                                    "\"data_offsets\":[",
                                                    "\"dtype\":\"U8\",\"shape\":[",
                                                    "],\"data_offsets\":[0,",
                                                    "]},"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace whisker;
  if (size == 0) return 0;
  const size_t data_bytes = data[0];
  std::string header = "{";
  for (size_t i = 1; i < size; ++i) header += words[data[i] % words.size()];
  const uint64_t header_bytes = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &header_bytes, 8);
  file += header;
  file.append(data_bytes, 'd');
  try {
    const SafetensorsFile parsed = SafetensorsFile::parse(std::as_bytes(std::span(file)), "fuzz");
    uint64_t total = 0;
    for (const SafetensorsTensor& tensor : parsed.tensors()) {
      total += tensor.bytes.size();
      for (const std::byte byte : tensor.bytes) {
        if (byte != std::byte{'d'}) std::abort();
      }
    }
    if (total != data_bytes) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) std::abort();
  }
  return 0;
}
