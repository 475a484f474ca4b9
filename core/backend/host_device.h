// A device whose memory is the host's and whose work is done when a method returns.
#pragma once

#include "core/backend/backend.h"

#include <cstring>

namespace whisker {

class HostDevice : public Backend {
 public:
  using Backend::Backend;

  void upload(const void* host, void* device, int64_t bytes) override {
    HostDevice::copy(host, device, bytes);
  }
  void download(const void* device, void* host, int64_t bytes) override {
    HostDevice::copy(device, host, bytes);
  }
  // Also called by the loader's and the checkpoint writer's threads, which must not enter OpenMP.
  void copy(const void* source, void* target, int64_t bytes) override {
    if (bytes > 0) std::memmove(target, source, static_cast<size_t>(bytes));
  }
  void synchronize() override {}
  void* allocate_pinned(int64_t bytes) override { return allocate(bytes, MemoryCategory::input); }
  void deallocate_pinned(void* memory, int64_t bytes) override {
    deallocate(memory, bytes, MemoryCategory::input);
  }
};

}  // namespace whisker
