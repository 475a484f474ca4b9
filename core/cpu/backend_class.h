// The CPU backend: memory, options and timed choices; its kernels are made by cpu_kernels.h.
#pragma once

#include "core/backend/host_device.h"
#include "core/cpu/cpu_backend.h"
#include "core/cpu/cpu_kernels.h"

namespace whisker::cpu {

class CpuBackend final : public HostDevice {
 public:
  CpuBackend();

  const CpuOptions& options() const { return device_.options; }
  void set_options(const CpuOptions& options);

  std::vector<BackendProperty> properties() const override;
  std::string export_algorithms() const override;
  void import_algorithms(std::string_view text) override;
  void* allocate(int64_t bytes, MemoryCategory category) override {
    return device_.allocator.allocate(bytes, category);
  }
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) override {
    device_.allocator.deallocate(memory, bytes, category);
  }
  MemoryStats memory_stats() const override { return device_.allocator.books().stats(); }
  void reset_peak() override { device_.allocator.books().reset_peak(); }
  void set_memory_options(const MemoryOptions& options) override;
  void empty_cache() override { device_.allocator.empty_cache(); }

 private:
  int default_threads_;
  CpuDevice device_{*this};
  KernelFamilies families_;
};

}  // namespace whisker::cpu
