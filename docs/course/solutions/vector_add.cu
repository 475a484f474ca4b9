#include "gpu/gpu.h"

__global__ void vector_add(const float* a, const float* b, float* sum, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) sum[i] = a[i] + b[i];
}
