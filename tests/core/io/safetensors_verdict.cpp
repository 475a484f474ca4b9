// Reads files from stdin, each as a u64 little-endian length and its bytes, and prints one line for
// each: "accepted N" with the number of tensors, or the refusal. scripts/compare_safetensors.py
// compares these with the verdicts of Python's safetensors.
#include "core/io/safetensors.h"

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  using namespace whisker;
  uint64_t length = 0;
  while (std::fread(&length, sizeof length, 1, stdin) == 1) {
    std::vector<std::byte> bytes(length);
    if (length != 0 && std::fread(bytes.data(), 1, length, stdin) != length) return 1;
    try {
      fmt::print("accepted {}\n", SafetensorsFile::parse(bytes, "mutant").tensors().size());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::checkpoint) return 1;
      fmt::print("{}\n", error.what());
    }
  }
}
