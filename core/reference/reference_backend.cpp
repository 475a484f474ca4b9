// Memory of the reference backend: straight from the system, with the books kept.
#include "core/reference/reference_backend.h"

#include <cstring>

namespace whisker {

std::vector<BackendProperty> ReferenceBackend::properties() const {
  return {{"computes with", "plain loops, one thread"}, {"types", "f32, f64"}};
}

void* ReferenceBackend::allocate(int64_t bytes, MemoryCategory category) {
  memory_.charge(bytes, category);
  try {
    void* memory = memory_.take(bytes);
    memory_.poison(memory, bytes);
    return memory;
  } catch (...) {
    memory_.release(bytes, category);
    throw;
  }
}

void ReferenceBackend::deallocate(void* memory, int64_t bytes, MemoryCategory category) {
  memory_.give(memory, bytes);
  memory_.release(bytes, category);
}

void ReferenceBackend::upload(const void* host, void* device, int64_t bytes) {
  copy(host, device, bytes);
}

void ReferenceBackend::download(const void* device, void* host, int64_t bytes) {
  copy(device, host, bytes);
}

void ReferenceBackend::copy(const void* source, void* target, int64_t bytes) {
  if (bytes > 0) std::memmove(target, source, static_cast<size_t>(bytes));
}

void* ReferenceBackend::allocate_pinned(int64_t bytes) {
  return allocate(bytes, MemoryCategory::input);
}

void ReferenceBackend::deallocate_pinned(void* memory, int64_t bytes) {
  deallocate(memory, bytes, MemoryCategory::input);
}

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace whisker
