// Launches, with tensors or untyped pointers for a kernel's pointers, and programmatic dependent
// launch (PDL, from compute capability 9.0): a kernel is set up while the one before it still runs.
// A small kernel costs mostly its launch, and a step of a small network is a sequence of small
// kernels. A captured graph keeps PDL as the kind of an edge.
#pragma once

#include "core/cuda/device_code/launch.h"
#include "core/cuda/runtime/check.h"
#include "core/cuda/runtime/context.h"

#include <cuda_runtime.h>

namespace whisker::cuda {

/// The first line of every kernel that launch_pdl() launches: waits until all earlier work is done
/// and visible, then lets the next kernel be set up. Since each such kernel waits, none ends before
/// its predecessors. Does nothing in a plain launch. Pointers of such a kernel are not
/// __restrict__: the compiler could move reads of constant memory above this line.
__device__ inline void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// An argument as a kernel takes it: the memory of a tensor, null where it is undefined; anything
/// else is cast.
template <class Parameter, class Argument>
Parameter parameter(const Argument& argument) {
  if constexpr (requires { argument.raw(); }) {
    return argument.defined() ? static_cast<Parameter>(argument.raw()) : nullptr;
  } else {
    return static_cast<Parameter>(argument);
  }
}

/// Blocks of a launch.
struct Blocks {
  dim3 grid, block;
  size_t shared_bytes;
  Blocks(unsigned count) : Blocks(dim3(count)) {}
  Blocks(dim3 blocks, dim3 threads = block_threads, size_t shared = 0)
      : grid(blocks), block(threads), shared_bytes(shared) {}
};
/// kernel<<<blocks, stream>>>(arguments...); an error names the kernel as `name`.
template <class... Parameters, class... Arguments>
void launch_kernel(cudaStream_t stream, const char* name, const Blocks& blocks,
                   void (*kernel)(Parameters...), const Arguments&... arguments) {
  kernel<<<blocks.grid, blocks.block, blocks.shared_bytes, stream>>>(
      parameter<Parameters>(arguments)...);
  check_launch(name);
}

/// Lets launches of `kernel` have `bytes` of dynamic shared memory, beyond the 48 KiB that every
/// kernel may have. What they had before stays allowed: launches with more may have been captured.
template <class Kernel>
void allow_shared_memory(Kernel* kernel, size_t bytes) {
  cudaFuncAttributes now{};
  check(cudaFuncGetAttributes(&now, kernel), "asking for a kernel's attributes");
  const auto wanted = static_cast<int>(bytes);
  if (wanted <= now.maxDynamicSharedSizeBytes) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, wanted),
        "asking for shared memory");
}

#ifdef WHISKER_NO_PDL
inline constexpr bool compiled_for_pdl = false;
#else
inline constexpr bool compiled_for_pdl = true;
#endif

/// kernel<<<blocks, stream>>>(arguments...), with PDL where the GPU has it.
template <class... Parameters, class... Arguments>
void launch_pdl(const KernelSite& site, const Blocks& blocks, void (*kernel)(Parameters...),
                const Arguments&... arguments) {
  cudaLaunchAttribute pdl{};
  pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  pdl.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks.grid;
  config.blockDim = blocks.block;
  config.dynamicSmemBytes = blocks.shared_bytes;
  config.stream = site.stream;
  config.attrs = &pdl;
  config.numAttrs = compiled_for_pdl && site.capability >= 90 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, parameter<Parameters>(arguments)...),
        "launching a kernel");
}
template <class... Parameters, class... Arguments>
void launch_pdl(const Context& context, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                const Arguments&... arguments) {
  launch_pdl(context.site(), {grid, block}, kernel, arguments...);
}

}  // namespace whisker::cuda
