// GPUs as the operating system lists them in files; opens no driver library.
#pragma once

#include "core/io/json.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct GpuFacts {
  std::string driver;               ///< NVIDIA kernel driver's version; "" when there is none
  std::vector<std::string> models;  ///< one per GPU
};

/// `proc` is /proc, or a copy of it.
GpuFacts find_gpus(const std::filesystem::path& proc = "/proc");

/// One line about the GPUs and, unless `why_unused` is "", why they are not used: see
/// why_no_cuda().
std::string describe_gpus(const GpuFacts& facts, std::string_view why_unused);
/// Writes the facts as members of the open object.
void write(JsonWriter& json, const GpuFacts& facts, const std::string& why_unused);

}  // namespace whisker
