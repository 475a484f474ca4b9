#include "gpu/gpu.h"

__global__ void softmax_rows(const float* x, float* y, int columns) {
  __shared__ float partial[128];
  const int t = static_cast<int>(threadIdx.x), row = static_cast<int>(blockIdx.x) * columns;
  float most = -INFINITY;
  for (int i = t; i < columns; i += 128) most = fmaxf(most, x[row + i]);
  partial[t] = most;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) partial[t] = fmaxf(partial[t], partial[t + half]);
    __syncthreads();
  }
  most = partial[0];
  __syncthreads();  // all have read it before the sums overwrite it
  float sum = 0;
  for (int i = t; i < columns; i += 128) sum += expf(x[row + i] - most);
  partial[t] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  for (int i = t; i < columns; i += 128) y[row + i] = expf(x[row + i] - most) / partial[0];
}
