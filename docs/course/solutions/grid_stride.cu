#include "gpu/gpu.h"

__global__ void saxpy(float a, const float* x, float* y, int n) {
  const int stride = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += stride) {
    y[i] = a * x[i] + y[i];
  }
}
