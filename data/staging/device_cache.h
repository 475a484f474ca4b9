// Decoded images kept in a device's memory, so that later epochs neither decode nor copy.
#pragma once

#include "core/tensor/device.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace whisker {

/// Keeps up to `max_bytes` of pixels of `size` images, first come first served, and never evicts
/// one. Thread-safe.
class DeviceImageCache {
 public:
  DeviceImageCache(Device device, int64_t size, uint64_t max_bytes);
  ~DeviceImageCache();
  DeviceImageCache(const DeviceImageCache&) = delete;
  DeviceImageCache& operator=(const DeviceImageCache&) = delete;

  struct Resident {
    uint8_t* memory = nullptr;  ///< on the device
    int height = 0;             ///< as given to keep()
    int width = 0;
  };
  std::optional<Resident> find(int64_t index) const;
  /// Whether the cache was full when this image came; it is never cached later.
  bool refused(int64_t index) const;
  /// Device memory for `bytes` of image `index`, which is in the cache from now on: the caller
  /// fills it before the device's next batch. Null when the cache is full or holds the image.
  uint8_t* keep(int64_t index, int height, int width, int64_t bytes);

  /// Images that did not fit.
  int64_t left_out() const;
  int64_t kept() const;

 private:
  uint8_t* allocate(int64_t bytes);

  Device device_;
  mutable std::mutex mutex_;
  std::vector<Resident> images_;
  std::vector<bool> refused_;
  uint64_t free_bytes_;  // bytes that may still be allocated on the device
  struct Slab {
    uint8_t* memory = nullptr;
    int64_t bytes = 0;
    int64_t used = 0;
  };
  std::vector<Slab> slabs_;
  int64_t kept_ = 0;
  int64_t left_out_ = 0;
};

}  // namespace whisker
