// Writing a safetensors file to anything that receives bytes.
#pragma once

#include "core/io/safetensors.h"

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// Writes what write_safetensors() writes to a path, handing the bytes to `write` one after the
/// other; `name` stands for the file in errors.
void write_safetensors(const std::function<void(std::span<const std::byte>)>& write,
                       const std::string& name, const std::map<std::string, std::string>& metadata,
                       std::vector<SafetensorsEntry> entries);

}  // namespace whisker
