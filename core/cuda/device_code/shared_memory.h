// Dynamic shared memory beyond the 48 KiB that every kernel may have.
#pragma once

#include "core/cuda/runtime/check.h"

#include <cstddef>

#include <cuda_runtime_api.h>

namespace whisker::cuda {

/// Lets launches of `kernel` have `bytes` of dynamic shared memory. What they had before stays
/// allowed: launches with more may have been captured.
template <class Kernel>
void allow_shared_memory(Kernel* kernel, size_t bytes) {
  cudaFuncAttributes now{};
  check(cudaFuncGetAttributes(&now, kernel), "asking for a kernel's attributes");
  const auto wanted = static_cast<int>(bytes);
  if (wanted <= now.maxDynamicSharedSizeBytes) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, wanted),
        "asking for shared memory");
}

}  // namespace whisker::cuda
