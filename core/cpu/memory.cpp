// Memory of the CPU backend: the allocator's face, and copies.
#include "core/cpu/backend_class.h"

#include <cstring>

namespace whisker::cpu {

void* CpuBackend::allocate(int64_t bytes, MemoryCategory category) {
  return allocator_.allocate(bytes, category);
}

void CpuBackend::deallocate(void* memory, int64_t bytes, MemoryCategory category) {
  allocator_.deallocate(memory, bytes, category);
}

MemoryStats CpuBackend::memory_stats() const {
  return allocator_.books().stats();
}
void CpuBackend::reset_peak() {
  allocator_.books().reset_peak();
}
void CpuBackend::empty_cache() {
  allocator_.empty_cache();
}

void CpuBackend::upload(const void* host, void* device, int64_t bytes) {
  copy(host, device, bytes);
}

void CpuBackend::download(const void* device, void* host, int64_t bytes) {
  copy(device, host, bytes);
}

void CpuBackend::copy(const void* source, void* target, int64_t bytes) {
  // Also called by the loader's and the checkpoint writer's threads, which must not enter OpenMP.
  if (bytes > 0) std::memcpy(target, source, static_cast<size_t>(bytes));
}

void* CpuBackend::allocate_pinned(int64_t bytes) {
  return allocate(bytes, MemoryCategory::input);
}

void CpuBackend::deallocate_pinned(void* memory, int64_t bytes) {
  deallocate(memory, bytes, MemoryCategory::input);
}

}  // namespace whisker::cpu
