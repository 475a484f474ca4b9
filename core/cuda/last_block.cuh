// Sums over blocks without a second kernel: blocks leave their parts in memory and whichever
// arrives last adds them, in the order of the parts, so that the result repeats bit for bit.
#pragma once

#include <cuda_runtime.h>

namespace whisker::cuda {
namespace {

inline constexpr unsigned most_tickets = 1024;
// Zero before and after every kernel; kernels of a device follow one another on its one stream.
__device__ unsigned tickets[most_tickets];

/// True in all threads of the block that is the last of `blocks` to call this with `ticket`; what
/// the others wrote before is visible to it through __ldcg().
__device__ inline bool arrives_last(unsigned ticket, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last = atomicAdd(&tickets[ticket], 1u) == blocks - 1;
    if (last) tickets[ticket] = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

}  // namespace
}  // namespace whisker::cuda
