// The reference backend: plain loops in f32 and f64, the textbook definition of every operator, to
// be read and to be compared with. One file per family; sums are accumulated in double.
// Elementwise, copying and indexing kernels take every dtype, the rest f32 and f64.
#pragma once

#include "core/backend/host_device.h"
#include "core/memory/host_memory.h"

#include <memory>

namespace whisker {

class ReferenceBackend final : public HostDevice {
 public:
  ReferenceBackend();

  std::vector<BackendProperty> properties() const override;
  void* allocate(int64_t bytes, MemoryCategory category) override;
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) override;
  MemoryStats memory_stats() const override { return memory_.stats(); }
  void reset_peak() override { memory_.reset_peak(); }
  void set_memory_options(const MemoryOptions& options) override { memory_.set_options(options); }
  void empty_cache() override {}  // nothing is cached

 private:
  HostMemory memory_{"reference"};
  KernelFamilies families_;
};

std::unique_ptr<Backend> make_reference_backend();

}  // namespace whisker
