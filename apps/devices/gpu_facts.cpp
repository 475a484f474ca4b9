// The NVIDIA driver publishes its version and its GPUs under /proc/driver/nvidia.
#include "apps/devices/gpu_facts.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace whisker {
namespace {

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat ...": the first word made of
// digits and dots.
std::string driver_version(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool number = word.find_first_not_of("0123456789.") == std::string::npos;
    if (number && word.find('.') != std::string::npos) return word;
  }
  return {};
}

std::string model_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("Model:")) continue;
    const size_t begin = line.find_first_not_of(" \t", 6);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

}  // namespace

GpuFacts find_gpus(const std::filesystem::path& proc) {
  const std::filesystem::path nvidia = proc / "driver/nvidia";
  GpuFacts facts{.driver = driver_version(nvidia / "version"), .models = {}};
  std::error_code error;
  for (std::filesystem::directory_iterator it(nvidia / "gpus", error), end; !error && it != end;
       it.increment(error)) {
    std::string model = model_of(it->path() / "information");
    facts.models.push_back(model.empty() ? "unknown model" : std::move(model));
  }
  std::sort(facts.models.begin(), facts.models.end());
  return facts;
}

std::string describe_gpus(const GpuFacts& facts, std::string_view why_unused) {
  std::string text;
  if (!facts.driver.empty() || !facts.models.empty()) {
    text = fmt::format(
        "{}, NVIDIA driver {}",
        facts.models.empty() ? "no GPU" : fmt::format("{}", fmt::join(facts.models, ", ")),
        facts.driver.empty() ? "of unknown version" : facts.driver);
  }
  if (why_unused.empty()) return text.empty() ? "usable" : text;
  return fmt::format("{}{}{}", text, text.empty() ? "" : "; ", why_unused);
}

void write(JsonWriter& json, const GpuFacts& facts, const std::string& why_unused) {
  json.field("gpu_used", why_unused.empty()).field("gpu_why_not", why_unused);
  json.field("nvidia_driver", facts.driver).list("gpus", facts.models);
}

}  // namespace whisker
