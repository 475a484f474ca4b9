#include "gpu/gpu.h"

#include <cuda_pipeline.h>

__global__ void async_copy(const float* x, float* y, int n) {
  __shared__ float buffers[2][64];
  const int t = static_cast<int>(threadIdx.x);
  __pipeline_memcpy_async(&buffers[0][t], x + t, sizeof(float));
  __pipeline_commit();
  for (int begin = 0; begin < n; begin += 64) {
    const int now = begin / 64 % 2;
    if (begin + 64 < n)
      __pipeline_memcpy_async(&buffers[1 - now][t], x + begin + 64 + t, sizeof(float));
    __pipeline_commit();  // maybe of nothing, so that the groups count the same
    __pipeline_wait_prior(1);
    __syncthreads();
    y[begin + t] = 2 * buffers[now][t];
    __syncthreads();
  }
}
