// The JSON header of a safetensors file, read token by token. Internal to core/io.
#pragma once

#include "core/tensor/dtype.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct SafetensorsRecord {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // offsets relative to the byte buffer
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsRecord> records;  // in the header's order, names not yet compared
};

/// Checks grammar, types and fields; throws checkpoint. `file` is the name for errors.
SafetensorsHeader read_safetensors_header(std::string_view json, const std::string& file);

}  // namespace whisker
