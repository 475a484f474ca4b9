// Copies from global to shared memory that pass no registers (PTX ISA, cp.async; from compute
// capability 8.0): a thread starts many and waits once.
#pragma once

#include <cstdint>

namespace whisker::cuda {

/// Starts a copy of 16 bytes at aligned addresses; of zeros, without reading, where not `inside`.
__device__ inline void start_copy(void* shared, const void* global, bool inside) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
                 "l"(__cvta_generic_to_global(global)), "r"(inside ? 16 : 0)
               : "memory");
#else
  __trap();
#endif
}
/// Waits for those that this thread has started; a barrier makes them visible to the block.
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace whisker::cuda
