#include "train/device/autotune_cache.h"

#include "core/backend/backend.h"
#include "core/cpu/cpu_backend.h"
#include "core/io/atomic_file.h"
#include "core/io/user_folder.h"
#include "core/nvidia/cuda_library.h"

namespace whisker {
namespace fs = std::filesystem;
namespace {

// Thousands of convolutions. A table that has grown beyond stays as it is.
constexpr size_t most_bytes = 1 << 20;

bool chooses(Device device) {
  if (device.kind == DeviceKind::cuda) return !cuda_options(device).deterministic;
  return device == cpu_device && cpu_options().winograd && !cpu_options().deterministic;
}

// "" when it cannot be read.
std::string cached_text(Device device) {
  try {
    return read_file(autotune_cache_path(device), most_bytes, ErrorKind::checkpoint);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

fs::path autotune_cache_path(Device device) {
  const fs::path cache = user_folder("XDG_CACHE_HOME", ".cache");
  const char* const file =
      device.kind == DeviceKind::cuda ? "cuda_algorithms.json" : "cpu_algorithms.json";
  return cache.empty() ? cache : cache / "whisker" / file;
}

void load_algorithms(Device device) {
  if (!chooses(device) || autotune_cache_path(device).empty()) return;
  try {
    backend_of(device).import_algorithms(cached_text(device));
  } catch (const Error&) {  // damaged: choices are timed, and the next save replaces it
  }
}

std::vector<std::string> save_algorithms(Device device) {
  std::vector<std::string> failures;
  if (device.kind == DeviceKind::cuda) failures = take_cuda_failures(device);
  const fs::path path = autotune_cache_path(device);
  if (!chooses(device) || path.empty()) return failures;
  const std::string text = backend_of(device).export_algorithms();
  if (text.empty() || text.size() > most_bytes || text == cached_text(device)) return failures;
  try {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    write_file_atomically(path, text);
  } catch (const Error&) {  // disk full or no permission: the next run times again
  }
  return failures;
}

}  // namespace whisker
