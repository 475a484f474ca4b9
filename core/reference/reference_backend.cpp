// Memory of the reference backend: straight from the system, with the books kept.
#include "core/reference/reference_backend.h"

#include "core/reference/reference_kernels.h"

namespace whisker {

ReferenceBackend::ReferenceBackend()
    : HostDevice(families_),
      families_{.elementwise = reference::make_elementwise(),
                .shape_index = reference::make_shape_index(),
                .reduction = reference::make_reduction(),
                .gemm = reference::make_gemm(),
                .convolution = reference::make_convolution(),
                .pooling = reference::make_pooling(),
                .normalization = reference::make_normalization(),
                .recurrent = reference::make_recurrent(),
                .losses = reference::make_losses(),
                .training_step = reference::make_training_step()} {}

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

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace whisker
