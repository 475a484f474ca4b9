// Memory is allocated on the device in slabs; a new image goes into the last one.
#include "data/staging/device_cache.h"

#include "core/backend/backend.h"

#include <algorithm>

namespace whisker {
namespace {

constexpr int64_t slab_bytes = int64_t{64} << 20;
constexpr int64_t alignment = 16;

}  // namespace

DeviceImageCache::DeviceImageCache(Device device, int64_t size, uint64_t max_bytes)
    : device_(device),
      images_(static_cast<size_t>(size)),
      refused_(static_cast<size_t>(size)),
      free_bytes_(max_bytes) {}

DeviceImageCache::~DeviceImageCache() {
  for (const Slab& slab : slabs_) {
    backend_of(device_).deallocate(slab.memory, slab.bytes, MemoryCategory::input);
  }
}

std::optional<DeviceImageCache::Resident> DeviceImageCache::find(int64_t index) const {
  const std::lock_guard lock(mutex_);
  const Resident& image = images_[static_cast<size_t>(index)];
  if (image.memory == nullptr) return std::nullopt;
  return image;
}

bool DeviceImageCache::refused(int64_t index) const {
  const std::lock_guard lock(mutex_);
  return refused_[static_cast<size_t>(index)];
}

uint8_t* DeviceImageCache::keep(int64_t index, int height, int width, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto i = static_cast<size_t>(index);
  if (images_[i].memory != nullptr || refused_[i]) return nullptr;
  uint8_t* const memory = allocate(bytes);
  if (memory == nullptr) {
    refused_[i] = true;
    ++left_out_;
    return nullptr;
  }
  images_[i] = {.memory = memory, .height = height, .width = width};
  ++kept_;
  return memory;
}

int64_t DeviceImageCache::left_out() const {
  const std::lock_guard lock(mutex_);
  return left_out_;
}

int64_t DeviceImageCache::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

uint8_t* DeviceImageCache::allocate(int64_t bytes) {
  const int64_t size = (bytes + alignment - 1) / alignment * alignment;
  if (slabs_.empty() || slabs_.back().bytes - slabs_.back().used < size) {
    const auto left = static_cast<int64_t>(std::min<uint64_t>(free_bytes_, int64_t{1} << 62));
    const int64_t wanted = std::min(std::max(size, slab_bytes), left);
    if (wanted < size) return nullptr;
    Slab slab{.bytes = wanted};
    try {
      slab.memory =
          static_cast<uint8_t*>(backend_of(device_).allocate(wanted, MemoryCategory::input));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::device) throw;
      free_bytes_ = 0;  // what the network needs comes first
      return nullptr;
    }
    free_bytes_ -= static_cast<uint64_t>(wanted);
    slabs_.push_back(slab);
  }
  Slab& slab = slabs_.back();
  uint8_t* const memory = slab.memory + slab.used;
  slab.used += size;
  return memory;
}

}  // namespace whisker
