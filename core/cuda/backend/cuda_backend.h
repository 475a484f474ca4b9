// The CUDA backend's class. A kernel family takes tensors and stands beside its kernels, or in a
// .cpp of the highest folder that it calls: docs/internals/kernels.md lists the folders.
#pragma once

#include "core/backend/backend.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/nvidia/cuda_library.h"

#include <functional>

namespace whisker::cuda {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int index);
  ~CudaBackend() override;

  const CudaOptions& options() const { return device_.options; }
  void set_options(const CudaOptions& options);
  Context& context() { return device_.context; }
  const Context& context() const { return device_.context; }

  std::vector<BackendProperty> properties() const override;
  std::string export_algorithms() const override;
  void import_algorithms(std::string_view text) override;
  std::vector<std::string> take_failures() { return device_.table.take_failures(); }

  void* allocate(int64_t bytes, MemoryCategory category) override {
    return device_.allocator.allocate(bytes, category);
  }
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) override {
    device_.allocator.deallocate(memory, bytes, category);
  }
  MemoryStats memory_stats() const override { return device_.allocator.stats(); }
  MemorySummary memory_summary() const override;
  void reset_peak() override { device_.allocator.reset_peak(); }
  void set_memory_options(const MemoryOptions& options) override {
    device_.allocator.set_options(options);
  }
  void empty_cache() override { device_.allocator.empty_cache(); }
  void* allocate_pinned(int64_t bytes) override;
  void deallocate_pinned(void* memory, int64_t bytes) override;
  void upload(const void* host, void* device, int64_t bytes) override;
  void download(const void* device, void* host, int64_t bytes) override;
  void copy(const void* source, void* target, int64_t bytes) override;
  void enqueue_upload(const void* host, void* device, int64_t bytes) override {
    device_.staging.upload(host, device, bytes);
  }

  void synchronize() override;
  std::unique_ptr<DeviceClock> make_clock() override;
  std::unique_ptr<SideStream> make_side_stream();
  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override;

  std::unique_ptr<ImagePipeline> make_image_pipeline() override;
  std::shared_ptr<JpegDecoder> make_jpeg_decoder(std::string& why) override;

 private:
  CudaDevice device_;
  KernelFamilies families_;
};

}  // namespace whisker::cuda
