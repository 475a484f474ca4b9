// Any bytes as a file of torch.save give tensors within bounds or one error: as they are, and with
// the checksums of a zip archive repaired, or nothing behind them would ever be reached.
#include "core/io/crc32.h"
#include "core/io/foreign_weights.h"
#include "core/io/torch_file.h"
#include "core/io/zip.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace whisker;
using Bytes = std::vector<std::byte>;

template <class T>
T number_at(const Bytes& file, uint64_t at) {
  T value = 0;
  if (at + sizeof(T) <= file.size()) std::memcpy(&value, file.data() + at, sizeof(T));
  return value;
}

// Writes the CRC-32 of each entry whose content lies within the file.
void repair(Bytes& file) {
  const ZipArchive archive(file, "fuzz");
  for (const ZipArchive::Entry& entry : archive.entries()) {
    const uint64_t local = number_at<uint32_t>(file, entry.at + 42);
    const uint64_t begin =
        local + 30 + number_at<uint16_t>(file, local + 26) + number_at<uint16_t>(file, local + 28);
    const uint64_t bytes = number_at<uint32_t>(file, entry.at + 24);
    if (begin > file.size() || bytes > file.size() - begin) continue;
    const uint32_t crc = crc32(std::span(file).subspan(begin, bytes));
    std::memcpy(file.data() + entry.at + 16, &crc, sizeof(crc));
  }
}

void read(std::span<const std::byte> bytes, const std::string& key) {
  const SafetensorsFile file = parse_torch_file(bytes, "fuzz", key);
  for (const SafetensorsTensor& tensor : file.tensors()) {
    uint64_t elements = 1, sum = 0;
    for (const uint64_t extent : tensor.shape) elements *= extent;
    for (const std::byte byte : tensor.bytes) sum += std::to_integer<uint64_t>(byte);
    const bool whole = elements * size_of(tensor.dtype) == tensor.bytes.size();
    if (!whole || sum > tensor.bytes.size() * 255 || file.find(tensor.name) != &tensor) {
      std::abort();
    }
  }
}

// One error of a file, or of a key that it lacks.
template <class Fn>
void refuse_or(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint && error.kind() != ErrorKind::usage) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  refuse_or([&] { read(bytes, ""); });
  refuse_or([&] {
    Bytes repaired(bytes.begin(), bytes.end());
    repair(repaired);
    for (const char* key : {"", "model_ema", "model_ema.module"}) {
      refuse_or([&] { read(repaired, key); });
    }
  });
  refuse_or([&] { refuse_foreign_weights({reinterpret_cast<const char*>(data), size}, "fuzz"); });
  return 0;
}
