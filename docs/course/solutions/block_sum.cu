#include "gpu/gpu.h"

__global__ void block_sum(const float* x, float* sums, int n) {
  __shared__ float partial[256];
  const int t = static_cast<int>(threadIdx.x), i = static_cast<int>(blockIdx.x) * 256 + t;
  partial[t] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = partial[0];
}
