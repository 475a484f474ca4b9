// Kernels that are set up while the one before them still runs (programmatic dependent launch, from
// compute capability 9.0). What a small kernel costs is mostly its launch, and a step of a small
// network is a chain of small kernels. Capturing keeps it: the attribute becomes an edge's kind.
#pragma once

#include "core/cuda/gpu/check.h"
#include "core/cuda/gpu/context.h"

#include <cuda_runtime.h>

namespace whisker::cuda {

/// The first line of every kernel that launch_early() launches: waits until all that came before is
/// done and visible, then lets the next kernel be set up. As every such kernel waits first, none
/// can end before its predecessors have. Does nothing in a plain launch. The pointers of such a
/// kernel are not __restrict__: reads that nothing can change may be moved above this.
__device__ inline void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#ifdef WHISKER_NO_EARLY_LAUNCH
inline constexpr bool kernels_wait = false;  // compiled for none of those that can
#else
inline constexpr bool kernels_wait = true;
#endif

/// Where a kernel is launched, and its dynamic shared memory.
struct LaunchPlace {
  cudaStream_t stream = nullptr;
  int capability = 0;  ///< as Context::capability
  size_t shared_bytes = 0;
};

/// kernel<<<grid, block, shared_bytes, stream>>>(arguments...), early where the GPU can.
template <class... Parameters, class... Arguments>
void launch_early(const LaunchPlace& place, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                  const Arguments&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = place.shared_bytes;
  config.stream = place.stream;
  config.attrs = &early;
  config.numAttrs = kernels_wait && place.capability >= 90 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
        "launching a kernel");
}
template <class... Parameters, class... Arguments>
void launch_early(const Context& context, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                  const Arguments&... arguments) {
  launch_early(LaunchPlace{.stream = context.stream(), .capability = context.capability()}, grid,
               block, kernel, arguments...);
}

}  // namespace whisker::cuda
