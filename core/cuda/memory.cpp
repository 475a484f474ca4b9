// The backend's memory methods: the allocator's face, and copies.
#include "core/cuda/check.h"
#include "core/cuda/cuda_backend.h"

namespace whisker::cuda {

void* CudaBackend::allocate(int64_t bytes, MemoryCategory category) {
  return allocator_.allocate(bytes, category);
}
void CudaBackend::deallocate(void* memory, int64_t bytes, MemoryCategory category) {
  allocator_.deallocate(memory, bytes, category);
}
MemoryStats CudaBackend::memory_stats() const {
  return allocator_.stats();
}
void CudaBackend::reset_peak() {
  allocator_.reset_peak();
}
void CudaBackend::set_memory_options(const MemoryOptions& options) {
  allocator_.set_options(options);
}
void CudaBackend::empty_cache() {
  allocator_.empty_cache();
}

void CudaBackend::upload(const void* host, void* device, int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream()),
        "copying to the GPU");
  context_.synchronize();
}

void CudaBackend::download(const void* device, void* host, int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream()),
        "copying from the GPU");
  context_.synchronize();
}

void CudaBackend::copy(const void* source, void* target, int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                        stream()),
        "copying on the GPU");
}

void CudaBackend::enqueue_upload(const void* host, void* device, int64_t bytes) {
  staging_.upload(host, device, bytes);
}

void CudaBackend::synchronize() {
  context_.enter();
  context_.synchronize();
}

}  // namespace whisker::cuda
