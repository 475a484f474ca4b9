#include "gpu/gpu.h"

__global__ void histogram(const int* values, float* counts, int n, int bins) {
  __shared__ float of_block[32];
  const int t = static_cast<int>(threadIdx.x), i = static_cast<int>(blockIdx.x * blockDim.x) + t;
  if (t < bins) of_block[t] = 0;
  __syncthreads();
  if (i < n) atomicAdd(&of_block[values[i]], 1.0f);
  __syncthreads();
  if (t < bins) atomicAdd(&counts[t], of_block[t]);
}
