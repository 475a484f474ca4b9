// Decoded pictures kept in a device's memory, so that later epochs neither decode nor copy.
#pragma once

#include "core/device.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace whisker {

/// Keeps up to `max_bytes` of pixels of `size` pictures, first come first served, and never lets
/// one go. Thread-safe.
class DevicePictureCache {
 public:
  DevicePictureCache(Device device, int64_t size, uint64_t max_bytes);
  ~DevicePictureCache();
  DevicePictureCache(const DevicePictureCache&) = delete;
  DevicePictureCache& operator=(const DevicePictureCache&) = delete;

  struct Resident {
    uint8_t* memory = nullptr;  ///< on the device
    int height = 0;             ///< as given to keep()
    int width = 0;
  };
  std::optional<Resident> find(int64_t index) const;
  /// There was no room for this picture, and there will be none.
  bool refused(int64_t index) const;
  /// Room for `bytes` of picture `index`, which is in the cache from now on: whoever asks has it
  /// filled before the device's next batch. Null when there is no room, or the picture is there.
  uint8_t* keep(int64_t index, int height, int width, int64_t bytes);

  /// Pictures for which there was no room.
  int64_t left_out() const;
  int64_t kept() const;

 private:
  uint8_t* room_for(int64_t bytes);

  Device device_;
  mutable std::mutex mutex_;
  std::vector<Resident> pictures_;
  std::vector<bool> refused_;
  uint64_t room_;  // bytes that may still be taken from the device
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
