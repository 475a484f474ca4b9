// Where tests find real data: $WHISKER_DATA, else ../shared/data beside the source tree. Tests skip
// when it is missing.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace whisker::test {

inline std::filesystem::path test_data_dir() {
  const char* set = std::getenv("WHISKER_DATA");
  if (set != nullptr) return set;
  return std::filesystem::path(WHISKER_SOURCE_DIR) / ".." / "shared" / "data";
}

inline std::vector<uint8_t> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace whisker::test
